"""Objectives behind one interface; each registers itself on import."""

from . import bpm, escd, likelihood, simct, spans, strict, topk  # noqa: F401  (each registers itself)
from .base import Objective, RowLosses, objective, objective_names
from .rows import Rows

__all__ = ["Objective", "RowLosses", "Rows", "objective", "objective_names"]
