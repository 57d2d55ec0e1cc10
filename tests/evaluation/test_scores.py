"""avg@k, pass@k and their intervals, against counting by hand."""

from itertools import combinations

import numpy as np
import pytest

from escd.evaluation import scores as module
from escd.evaluation.scores import Score, pass_at_k, score, scores


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(n):
    for c in range(n + 1):
        samples = [True] * c + [False] * (n - c)
        for k in range(1, n + 1):
            subsets = [any(subset) for subset in combinations(samples, k)]
            assert pass_at_k(n, c, k) == pytest.approx(sum(subsets) / len(subsets), abs=1e-12)


def test_pass_at_k_of_many_samples():
    assert pass_at_k(2000, 1, 1000) == pytest.approx(0.5)
    assert pass_at_k(2000, 0, 2000) == 0
    assert pass_at_k(2000, 1, 2000) == 1
    for wrong in ((4, 5, 1), (4, -1, 1), (4, 1, 5), (4, 1, 0)):
        with pytest.raises(ValueError, match="not defined"):
            pass_at_k(*wrong)


def test_scores_of_all_k():
    verdicts = [[True, False, False, False, False, False], [True] * 6, [False] * 6]
    found = scores(verdicts)
    assert (found.problems, found.samples, list(found.pass_at)) == (3, 6, [1, 2, 4, 6])
    assert found.average.accuracy == pytest.approx(7 / 18)
    assert found.pass_at[1].accuracy == pytest.approx(7 / 18)
    assert found.pass_at[2].accuracy == pytest.approx((1 / 3 + 1) / 3)
    assert found.pass_at[6].accuracy == pytest.approx(2 / 3)
    assert list(found.named()) == ["avg@6", "pass@1", "pass@2", "pass@4", "pass@6"]
    for one in found.named().values():
        assert one.low <= one.accuracy <= one.high


def test_scores_need_equally_many_samples():
    for wrong in ([], [[]], [[True], [True, False]]):
        with pytest.raises(ValueError, match="same number"):
            scores(wrong)


def test_the_interval_is_over_problems():
    """Four equal samples of a problem say no more than one."""
    once = [[i % 3 == 0] for i in range(60)]
    fourfold = [v * 4 for v in once]
    assert score(fourfold) == score(once)
    # The normal interval of a share, which the bootstrap approaches.
    half = 1.96 * np.sqrt((1 / 3) * (2 / 3) / 60)
    assert (score(once).high - score(once).low) / 2 == pytest.approx(half, rel=0.1)
    assert score([[True]] * 5) == Score(1.0, 1.0, 1.0)


def test_the_interval_does_not_depend_on_how_much_fits_into_memory(monkeypatch):
    verdicts = (np.random.default_rng(1).random((70, 4)) < 0.3).tolist()
    whole = scores(verdicts)
    monkeypatch.setattr(module, "_AT_ONCE", 1000)
    assert scores(verdicts) == whole
