"""Objectives behind one interface; each registers itself on import."""

from . import escd as _escd  # noqa: F401  (registers "escd")
from .base import Objective, RowLosses, objective, objective_names
from .rows import Rows

__all__ = ["Objective", "RowLosses", "Rows", "objective", "objective_names"]
