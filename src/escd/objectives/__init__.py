"""Objectives behind one interface; each registers itself on import."""

from . import escd as _escd  # noqa: F401  (registers "escd")
from .base import Objective, RowLosses, Rows, objective, objective_names

__all__ = ["Objective", "RowLosses", "Rows", "objective", "objective_names"]
