"""avg@k and pass@k with bootstrap intervals over problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

_RESAMPLES = 10_000
_AT_ONCE = 10_000_000  # resampled problems held in memory


@dataclass(frozen=True)
class Score:
    """A mean over problems and its 95 % interval, all between 0 and 1."""

    accuracy: float
    low: float
    high: float

    def overlaps(self, other: Score) -> bool:
        """Whether the two intervals share a value."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Scores:
    """All scores of one evaluation.

    Attributes:
        problems: Number of problems.
        samples: Samples of each.
        average: avg@samples, the mean share of right samples.
        pass_at: pass@k, the chance that one of k samples is right, for k = 1, 2, 4, ... and `samples`.
    """

    problems: int
    samples: int
    average: Score
    pass_at: dict[int, Score]

    def named(self) -> dict[str, Score]:
        """The scores under their names: avg@4, pass@1, pass@2, ..."""
        return {f"avg@{self.samples}": self.average, **{f"pass@{k}": s for k, s in self.pass_at.items()}}


def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate of pass@k from n samples of which c are right (Chen et al. 2021, arXiv 2107.03374, eq. 1).

    The share of the subsets of k samples that hold a right one: 1 - C(n-c, k) / C(n, k).

    Raises:
        ValueError: Not 0 <= c <= n or not 1 <= k <= n.

    Example:
        >>> pass_at_k(4, 1, 2)
        0.5
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {n} samples with {c} right ones is not defined")
    return 1 - comb(n - c, k) / comb(n, k)


def score(verdicts: Sequence[Sequence[bool]], resamples: int = _RESAMPLES, seed: int = 0) -> Score:
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
    return _bootstrap([[float(np.mean(v)) for v in verdicts]], resamples, seed)[0]


def scores(verdicts: Sequence[Sequence[bool]], resamples: int = _RESAMPLES, seed: int = 0) -> Scores:
    """avg@k and pass@k of problems with equally many samples, the intervals as in `score`.

    Raises:
        ValueError: No problems, or problems with different numbers of samples.

    Example:
        >>> found = scores([[True, False], [False, False]])
        >>> {name: s.accuracy for name, s in found.named().items()}
        {'avg@2': 0.25, 'pass@1': 0.25, 'pass@2': 0.5}
    """
    sizes = {len(v) for v in verdicts}
    if len(sizes) != 1 or not (n := sizes.pop()):
        raise ValueError("scores need problems, each with the same number of samples")
    ks = sorted({2**i for i in range(n.bit_length())} | {n})
    right = [sum(v) for v in verdicts]
    rates = [[c / n for c in right], *([pass_at_k(n, c, k) for c in right] for k in ks)]
    average, *rest = _bootstrap(rates, resamples, seed)
    return Scores(len(verdicts), n, average, dict(zip(ks, rest, strict=True)))


def _bootstrap(rates: Sequence[Sequence[float]], resamples: int, seed: int) -> list[Score]:
    """Mean and interval of each row of [scores, problems]; all rows see the same resamples."""
    values = np.array(rates, float)
    n = values.shape[1]
    rng, means = np.random.default_rng(seed), []
    for start in range(0, resamples, step := max(1, _AT_ONCE // n)):
        picks = rng.integers(0, n, (min(step, resamples - start), n))
        means.append(np.stack([row[picks].mean(1) for row in values]))
    low, high = np.quantile(np.concatenate(means, axis=1), [0.025, 0.975], axis=1)
    return [Score(float(m), float(lo), float(hi)) for m, lo, hi in zip(values.mean(1), low, high, strict=True)]
