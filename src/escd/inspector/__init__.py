"""`escd inspect`: responses as bytes, both models' tokens and what each row is taught, on one page."""
