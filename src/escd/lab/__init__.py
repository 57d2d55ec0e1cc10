"""The embedded pair: a teacher, a student and tasks small enough for two CPU cores.

Importing this package is cheap: neither torch nor transformers is loaded. The two folders hold
ordinary Hugging Face checkpoints::

    from transformers import AutoModelForCausalLM, AutoTokenizer
    student = AutoModelForCausalLM.from_pretrained(escd.lab.STUDENT_PATH)
    tokenizer = AutoTokenizer.from_pretrained(escd.lab.STUDENT_PATH)

``python -m escd.lab.build`` makes them again from nothing.
"""

from pathlib import Path

from .problems import Problem, problems
from .tasks import TASKS

_ASSETS = Path(__file__).resolve().parent / "assets"

TEACHER_PATH: str = str(_ASSETS / "teacher")
STUDENT_PATH: str = str(_ASSETS / "student")

__all__ = ["STUDENT_PATH", "TASKS", "TEACHER_PATH", "Problem", "problems"]
