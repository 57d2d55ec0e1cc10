"""Tasks: problems with prompts, and the grader that judges the answers."""

from .base import Question, Task
from .loading import load_task, load_tasks, task_names

__all__ = ["Question", "Task", "load_task", "load_tasks", "task_names"]
