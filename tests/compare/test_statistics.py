"""Means, intervals and paired differences against figures worked out by hand or by brute force."""

import itertools
import math

import numpy as np
import pytest

from escd.compare.statistics import (
    BETTER,
    UNCERTAIN,
    WORSE,
    bootstrap,
    difference,
    estimate,
    own_problems,
    shared_problems,
    t_quantile,
)


@pytest.mark.parametrize(
    ("freedom", "level", "t"),
    [(1, 0.95, 12.7062), (2, 0.95, 4.3027), (4, 0.95, 2.7764), (9, 0.95, 2.2622), (120, 0.95, 1.9799),
     (1e6, 0.95, 1.95997), (4, 0.99, 4.6041), (1, 0.5, 1.0)],
)  # fmt: skip
def test_t_quantile_is_that_of_the_tables(freedom, level, t):
    assert t_quantile(freedom, level) == pytest.approx(t, rel=1e-4)


def test_two_seeds_with_problems_of_their_own_by_hand():
    # Means 0.75 and 0.25: their variance over 2 seeds is 0.125 / 2; within, 0.125 / 2 and 0.125 / 2 over 4.
    found = estimate({1: {"a": 1.0, "b": 0.5}, 2: {"c": 0.5, "d": 0.0}}, lowest=-9, highest=9)
    assert found.mean == 0.5
    assert found.high - found.mean == pytest.approx(12.7062 * math.sqrt(0.0625), rel=1e-4)
    assert (found.seeds, found.problems) == (2, 2)


def test_shared_problems_by_hand():
    # Means of seeds 0.5 and 0.5, of problems 0.75 and 0.25, residuals all 0.25 in size.
    matrix = np.array([[1.0, 0.0], [0.5, 0.5]])
    variance, freedom = shared_problems(matrix)
    chance = 4 * 0.0625 / 1 / 4
    choice = 0.125 / 2 - chance
    assert variance == pytest.approx(chance + choice)
    assert freedom == pytest.approx(1.0)


def test_shared_problems_against_sums_of_squares():
    rng = np.random.default_rng(0)
    matrix = rng.normal(0, 3, (1, 7)) + rng.normal(0, 1, (3, 7)) + [[0], [2], [4]]
    seeds, problems = matrix.shape
    grand = matrix.sum() / 21
    of_seed = sum(problems * (matrix[s].sum() / problems - grand) ** 2 for s in range(seeds)) / (seeds - 1)
    of_problem = sum(seeds * (matrix[:, p].sum() / seeds - grand) ** 2 for p in range(problems)) / (problems - 1)
    residual = 0.0
    for s, p in itertools.product(range(seeds), range(problems)):
        expected = matrix[s].sum() / problems + matrix[:, p].sum() / seeds - grand
        residual += (matrix[s, p] - expected) ** 2 / ((seeds - 1) * (problems - 1))
    a, b, c = of_seed / 21, of_problem / 21, residual / 21
    assert min(a, b) > c
    variance, freedom = shared_problems(matrix)
    assert variance == pytest.approx(a + b - c)
    assert freedom == pytest.approx((a + b - c) ** 2 / (a**2 / (seeds - 1) + (b - c) ** 2 / (problems - 1)))


def test_seeds_that_agree_by_luck_do_not_make_an_interval_of_no_width():
    seeds = {1: {"a": 0.0, "b": 1.0, "c": 0.0}, 2: {"d": 1.0, "e": 0.0, "f": 0.0}}
    found = estimate(seeds)
    assert found.mean == pytest.approx(1 / 3)
    assert found.high > 0.9
    shared = estimate({1: {"a": 0.0, "b": 1.0, "c": 0.0}, 2: {"a": 1.0, "b": 0.0, "c": 0.0}})
    assert shared.high > 0.9


def test_one_seed_is_a_bootstrap_over_problems_against_all_resamples():
    values = np.array([0.0, 0.0, 1.0, 0.5, 1.0])
    means = sorted(np.mean(pick) for pick in itertools.product(values, repeat=5))
    low, high = bootstrap(values)
    assert low == pytest.approx(means[int(0.025 * len(means))], abs=0.051)
    assert high == pytest.approx(means[int(0.975 * len(means))], abs=0.051)
    found = estimate({7: dict(enumerate(values))})
    assert (found.low, found.high, found.seeds) == (low, high, 1)
    assert (low, high) == bootstrap(values)


def test_a_single_problem_of_a_single_seed_has_no_interval():
    found = estimate({1: {"a": 1.0}})
    assert found.mean == 1.0
    assert math.isnan(found.low)
    assert found.verdict == UNCERTAIN


def test_nothing_to_average():
    found = estimate({1: {}})
    assert math.isnan(found.mean)
    assert (found.seeds, found.verdict) == (0, UNCERTAIN)


def test_one_problem_shared_by_all_seeds():
    found = estimate({1: {"a": 0.25}, 2: {"a": 0.75}})
    assert (found.mean, found.low, found.high) == (0.5, 0.0, 1.0)


def test_difference_pairs_by_seed_and_problem():
    hard = {s: {p: (p % 4) / 4 for p in range(40)} for s in range(3)}
    arm = {s: {p: v + 0.25 for p, v in of.items()} for s, of in hard.items()}
    found = difference(arm, hard)
    # What both have in common is gone: every pair differs by exactly this much.
    assert (found.mean, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))
    assert found.verdict == BETTER
    assert difference(hard, arm).verdict == WORSE
    assert difference(hard, hard).verdict == UNCERTAIN
    assert difference(hard, hard).low == 0.0


def test_difference_leaves_out_what_one_side_lacks():
    found = difference({1: {"a": 1.0, "b": 1.0}, 2: {"a": 1.0}, 3: {"a": 0.0}}, {1: {"a": 0.0}, 2: {"a": 0.5}})
    assert found.mean == 0.75
    assert found.seeds == 2
    assert difference({1: {"a": 1.0}}, {2: {"a": 1.0}}).seeds == 0


def test_bounds_cut_the_interval():
    found = estimate({1: {"a": 1.0, "b": 1.0}, 2: {"c": 0.5, "d": 1.0}})
    assert found.high == 1.0
    gap = difference({1: {"a": 1.0}, 2: {"a": 0.0}}, {1: {"a": 0.0}, 2: {"a": 1.0}})
    assert (gap.low, gap.high) == (-1.0, 1.0)


@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_hold_the_truth_where_a_bootstrap_over_seeds_does_not(seeds):
    rng, trials, problems = np.random.default_rng(0), 400, 40
    hits = {"own": 0, "shared": 0, "bootstrap": 0}
    for _ in range(trials):
        of_seed, noise = rng.normal(0, 0.1, (seeds, 1)), rng.normal(0, 0.3, (seeds, problems))
        own = of_seed + rng.normal(0, 0.3, (seeds, problems)) + noise
        shared = of_seed + rng.normal(0, 0.3, (1, problems)) + noise
        for name, values, (variance, freedom) in (
            ("own", own, own_problems(list(own))), ("shared", shared, shared_problems(shared)),
        ):  # fmt: skip
            hits[name] += abs(values.mean()) <= t_quantile(freedom) * math.sqrt(variance)
        means = own.mean(1)
        low, high = np.quantile(means[rng.integers(0, seeds, (400, seeds))].mean(1), [0.025, 0.975])
        hits["bootstrap"] += low <= 0 <= high
    assert min(hits["own"], hits["shared"]) > 0.91 * trials
    assert hits["bootstrap"] < 0.87 * trials
