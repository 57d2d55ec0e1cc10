"""Means over seeds and problems with 95 % intervals, and paired differences.

**Two seeds or more**: a t interval. Let S be the number of seeds, P that of problems, `m_s` the mean over the problems
of seed s. The squared standard error of the mean over seeds is

- `a = var(m_s) / S` with S - 1 degrees of freedom where every seed has problems of its own,
- `a + max(b - c, 0)` where all seeds share their problems; `b` = variance over problems / P, with P - 1 degrees of
  freedom, `c` = residual mean square / (S P).

`a` holds everything that differs from seed to seed: order of prompts, chance in responses and answers and, if they are
its own, the problems. Shared problems are the same draw for every seed, so their choice adds a part of its own, which
`b - c` estimates (a two-way random effects model without repetition). Degrees of freedom of the sum: Satterthwaite.
With few seeds and few problems `a` can come out too small by luck, even 0; it is never taken to be less than what
chance within a seed alone explains (`c`, or with own problems the variance over problems / (S P)).

A bootstrap over seeds would be too narrow: with three to five seeds 76 to 84 % of its 95 % intervals hold the truth,
of these 91 % or more (`tests/compare/test_statistics.py` simulates both).

**One seed**: a percentile bootstrap over problems. It says what other problems would do, not what another seed would.

**Difference to a reference**: taken problem by problem and seed by seed first, then treated as above, so that what
both arms have in common (hard problems, an unlucky seed) cancels.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

Values = Mapping[int, Mapping[Hashable, float]]  # seed -> problem -> value
LEVEL = 0.95
BETTER, WORSE, UNCERTAIN = "better", "worse", "no certain difference"
_RESAMPLES = 10_000
_GAUSS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        mean: NaN if there is nothing to average.
        low, high: Ends of the interval, NaN if a single problem of a single seed is all there is.
        seeds, problems: How many it rests on; `problems` per seed.
    """

    mean: float
    low: float
    high: float
    seeds: int
    problems: int

    @property
    def verdict(self) -> str:
        """For a difference: "better" or "worse" if the interval lies on one side of 0."""
        if self.low > 0:
            return BETTER
        return WORSE if self.high < 0 else UNCERTAIN


def estimate(values: Values, lowest: float = 0.0, highest: float = 1.0) -> Estimate:
    """Mean over seeds of the mean over problems, each seed with the same weight.

    Args:
        values: For each seed, the value of each problem; seeds without a problem do not count.
        lowest, highest: Bounds of a value, to which the interval is cut.

    Example:
        >>> estimate({1: {"a": 1.0, "b": 0.5}, 2: {"a": 0.5, "b": 0.0}}).mean
        0.5
    """
    kept = {seed: dict(of) for seed, of in values.items() if of}
    if not kept:
        return Estimate(math.nan, math.nan, math.nan, 0, 0)
    rows = [np.array(list(of.values()), np.float64) for of in kept.values()]
    mean = float(np.mean([row.mean() for row in rows]))
    problems = round(float(np.mean([len(row) for row in rows])))
    if len(rows) == 1:
        low, high = bootstrap(rows[0])
    else:
        names = list(next(iter(kept.values())))
        if all(set(of) == set(names) for of in kept.values()):
            variance, freedom = shared_problems(np.array([[of[n] for n in names] for of in kept.values()]))
        else:
            variance, freedom = own_problems(rows)
        half = t_quantile(freedom) * math.sqrt(variance)
        low, high = mean - half, mean + half
    return Estimate(mean, max(low, lowest), min(high, highest), len(rows), problems)


def difference(values: Values, reference: Values) -> Estimate:
    """Mean of `values - reference` over the seeds and problems that both have."""
    paired = {
        seed: {name: of[name] - reference[seed][name] for name in of if name in reference[seed]}
        for seed, of in values.items()
        if seed in reference
    }
    return estimate(paired, lowest=-1.0)


def bootstrap(values: np.ndarray) -> tuple[float, float]:
    """95 % percentile interval of the mean of values [P], resampled with a fixed seed; NaN for fewer than two."""
    if len(values) < 2:
        return math.nan, math.nan
    picks = np.random.default_rng(0).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(values[picks].mean(1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def own_problems(rows: list[np.ndarray]) -> tuple[float, float]:
    """Variance of the mean over seeds and its degrees of freedom; rows: S arrays of values of that seed's problems."""
    seeds = len(rows)
    between = np.var([row.mean() for row in rows], ddof=1) / seeds
    within = sum(row.var(ddof=1) / len(row) for row in rows if len(row) > 1) / seeds**2
    return float(max(between, within)), float(seeds - 1)


def shared_problems(matrix: np.ndarray) -> tuple[float, float]:
    """The same for values [S, P] of problems that all seeds share."""
    seeds, problems = matrix.shape
    of_seeds, of_problems = matrix.mean(1), matrix.mean(0)
    between = np.var(of_seeds, ddof=1) / seeds
    if problems < 2:
        return float(between), float(seeds - 1)
    residual = matrix - of_seeds[:, None] - of_problems + matrix.mean()
    chance = (residual**2).sum() / ((seeds - 1) * (problems - 1)) / (seeds * problems)
    choice = max(np.var(of_problems, ddof=1) / problems - chance, 0.0)
    between = max(between, chance)
    parts = between**2 / (seeds - 1) + choice**2 / (problems - 1)
    freedom = (between + choice) ** 2 / parts if parts else seeds - 1
    return float(between + choice), float(freedom)


def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """The t for which a share `level` of Student's distribution lies between -t and t.

    Args:
        freedom: Degrees of freedom, at least 1, need not be whole.
        level: Between 0 and 1.

    Example:
        >>> round(t_quantile(4), 3)
        2.776
    """
    nodes, weights = _GAUSS
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) * 2 / math.sqrt(math.pi)

    def inside(t: float) -> float:
        # With t = sqrt(freedom) tan(angle) the density is a power of a cosine.
        end = math.atan(t / math.sqrt(freedom))
        return scale * end / 2 * float(weights @ np.cos(end / 2 * (nodes + 1)) ** (freedom - 1))

    low, high = 0.0, 1e3
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < level else (low, middle)
    return (low + high) / 2
