"""Teachers on vLLM servers, reached over HTTP; vLLM itself is never imported."""

from .cache import RowCache
from .teacher import VLLMTeacher

__all__ = ["RowCache", "VLLMTeacher"]
