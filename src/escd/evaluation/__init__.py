"""Sampling a model on problems and scoring what it says."""

from .sampling import Sample, sample
from .scores import Score, score

__all__ = ["Sample", "Score", "sample", "score"]
