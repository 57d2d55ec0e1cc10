"""What runs within the walls. Sent there as compiled code; imports only the standard library, and little of it.

Nothing here guards anything once a model's program runs in the same process; the walls do, and the fact that checks
run in another process than the program.
"""
