"""One run in a process that ends with the comparison that started it: `python -m escd.compare.child FLAGS`.

Standard input is a pipe that only the comparison can write to. When the comparison ends, killed or not, the operating
system closes it, and the run kills its process group: no run goes on unseen and writes into a folder that another
comparison has taken over.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from ..cli import main


def _die_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_die_with_parent, daemon=True).start()
    sys.exit(main(["distill", *sys.argv[1:]]))
