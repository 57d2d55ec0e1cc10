"""avg@k with a bootstrap interval over problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Score:
    """Mean share of right samples and its 95 % interval, all between 0 and 1."""

    accuracy: float
    low: float
    high: float

    def overlaps(self, other: Score) -> bool:
        """Whether the two intervals share a value."""
        return self.low <= other.high and other.low <= self.high


def score(verdicts: Sequence[Sequence[bool]], resamples: int = 10_000, seed: int = 0) -> Score:
    """avg@k: the mean over problems of the share of right samples.

    The interval resamples problems, not samples: samples of one problem are not independent.

    Args:
        verdicts: For each problem, whether each of its samples is right.
        resamples: Bootstrap resamples.
        seed: Of the resampling.

    Example:
        >>> score([[True, False], [True, True], [False, False], [True, True]]).accuracy
        0.625
    """
    rates = np.array([np.mean(v) for v in verdicts])
    picks = np.random.default_rng(seed).integers(0, len(rates), (resamples, len(rates)))
    low, high = np.quantile(rates[picks].mean(1), [0.025, 0.975])
    return Score(float(rates.mean()), float(low), float(high))
