"""Programs of a model, run where they can do no harm: `run_python`.

`box` starts a confined Python, `bubblewrap` and `syscalls` are its walls, `runtime` the Python that it sees, `inside`
the code that runs within the walls, `outcome` what came of a run.
"""

from .limits import Limits
from .outcome import Outcome
from .run import run_python

__all__ = ["Limits", "Outcome", "run_python"]
