"""Teachers: a response in, hidden states of the wanted rows out."""

from .base import Conversation, Teacher
from .local import LocalTeacher

__all__ = ["Conversation", "LocalTeacher", "Teacher"]
