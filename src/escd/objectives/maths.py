"""Pure functions on arrays: ragged indices, segment reductions in log space, KL with a complement bin.

Axis suffixes: V columns of a head, N rows, S segments. Names that start with `log` hold natural logarithms.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Logits are kept at or above this in tiles, so that 0 * logit is 0; no real logit comes near.
FLOOR = -1e30
# A log-probability below this is an empty sum.
UNREACHABLE = -1e25


def ragged(starts: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenate the ranges `starts[s] .. starts[s] + counts[s]`.

    Args:
        starts: int64 [S], first index of each range.
        counts: int64 [S], its length, 0 allowed.

    Returns:
        The indices [sum of counts] and for each the segment s it came from.

    Example:
        >>> index, segment = ragged(torch.tensor([5, 0, 9]), torch.tensor([2, 0, 1]))
        >>> index.tolist(), segment.tolist()
        ([5, 6, 9], [0, 0, 2])
    """
    segment = torch.repeat_interleave(counts)
    first = counts.cumsum(0) - counts
    index = torch.arange(segment.numel(), device=starts.device)
    return index + (starts - first)[segment], segment


def segment_sum(values: Tensor, segment: Tensor, size: int) -> Tensor:
    """Sum of `values` [K] over each of `size` segments, `segment` [K] naming the segment of each."""
    return values.new_zeros(size).index_add(0, segment, values)


def segment_logsumexp(log_values: Tensor, segment: Tensor, size: int) -> Tensor:
    """log of the sum of exp over each segment, -inf for an empty one; safe for values that underflow.

    Args:
        log_values: [K].
        segment: int64 [K].
        size: Number of segments S.

    Example:
        >>> segment_logsumexp(torch.tensor([-900.0, -900.0, 0.0]), torch.tensor([0, 0, 1]), 2).tolist()
        [-899.3068237304688, 0.0]
    """
    peak = log_values.new_full((size,), -torch.inf).scatter_reduce(0, segment, log_values.detach(), "amax")
    peak = torch.where(peak.isfinite(), peak, 0.0)
    total = segment_sum((log_values - peak[segment]).exp(), segment, size)
    # Logarithms of empty sums are kept away from the gradient, where 0 / 0 would be NaN.
    return torch.where(total > 0, peak + torch.where(total > 0, total, 1.0).log(), -torch.inf)


def expected_log(weight: Tensor, log_values: Tensor) -> Tensor:
    """`weight * log_values` with 0 where the weight is 0, also where the logarithm is -inf."""
    return torch.where(weight > 0, weight * torch.where(weight > 0, log_values, 0.0), 0.0)


def kl_with_complement(target: Tensor, target_rest: Tensor, log_p: Tensor, inside: Tensor) -> Tensor:
    """Forward KL over the columns `inside` and one bin for all others (paper eq. 35-37), in nats.

    Args:
        target: [N, V], target masses, 0 outside.
        target_rest: [N], mass of the complement bin ⊥.
        log_p: [N, V], log-probabilities of the student over its full head.
        inside: bool [V], columns with a bin of their own.

    Returns:
        [N]. The complement's probability is a log-sum-exp over its columns, never `1 - sum`. A student that has no
        column (or only columns at -inf) outside cannot place mass there: the bin is left out.
    """
    inner = (torch.special.xlogy(target, target) - expected_log(target, log_p))[:, inside].sum(-1)
    if bool(inside.all()):
        return inner
    outside = log_p[:, ~inside]
    reachable = (outside.detach() > -torch.inf).any(-1)
    log_rest = torch.where(reachable[:, None], outside, 0.0).logsumexp(-1)
    rest = torch.special.xlogy(target_rest, target_rest) - target_rest * log_rest
    return inner + torch.where(reachable, rest, 0.0)


def rest_logsumexp(log_p: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """log-sum-exp of the columns `outside` of each row, and whether any of them can be reached at all.

    Args:
        log_p: [N, V], log-probabilities.
        outside: bool [N, V].

    Returns:
        [N], and bool [N]: rows without a column above -inf outside have no such bin, and their value means nothing.
    """
    some = (outside & (log_p.detach() > -torch.inf)).any(1)
    return torch.where(outside & some[:, None], log_p, -torch.inf).masked_fill(~some[:, None], 0.0).logsumexp(1), some


def possible_only(log_q: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    """Both, with the events that the teacher excludes ruled out on either side; what is left wants normalising.

    Reverse KL of such an event is infinite. A full head has none; of a sparse teacher it is all that was not sent.
    """
    return log_q.clamp_min(FLOOR), torch.where(log_q > UNREACHABLE, log_p, FLOOR)


def divergence(log_q: Tensor, log_p: Tensor, beta: float) -> Tensor:
    """Pointwise terms of the generalised Jensen-Shannon divergence of GKD (arXiv 2306.13649, eq. 1).

    Args:
        log_q: Log-probabilities of the teacher, a constant.
        log_p: Of the student, the same shape.
        beta: 0 forward KL(q || p), 1 reverse KL(p || q), between them beta KL(q || m) + (1 - beta) KL(p || m) with
            m = beta q + (1 - beta) p.

    Returns:
        Terms of the same shape, in nats; their sum over events is the divergence. 0 log 0 is 0.

    Example:
        >>> q, p = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
        >>> round(divergence(q.log(), p.log(), 0.0).sum().item(), 4)
        0.1438
    """
    if beta == 0:
        return _kl_terms(log_q, log_p)
    if beta == 1:
        return _kl_terms(log_p, log_q)
    # An event that is impossible for both would leave the gradient of the mixture undefined.
    log_q, log_p = log_q.clamp_min(FLOOR), log_p.clamp_min(FLOOR)
    mixture = torch.logaddexp(log_q + math.log(beta), log_p + math.log1p(-beta))
    return beta * _kl_terms(log_q, mixture) + (1 - beta) * _kl_terms(log_p, mixture)


def _kl_terms(log_a: Tensor, log_b: Tensor) -> Tensor:
    a = log_a.exp()
    some = a > 0
    # Masked before the product: 0 * inf is NaN, and so is its gradient.
    gap = torch.where(some, log_a, 0.0) - torch.where(some, log_b, 0.0)
    return torch.where(some, a * gap, 0.0)


def column_logsumexp(z: Tensor, block: int = 4096) -> Tensor:
    """log-sum-exp down the columns of [V, N], in blocks of rows that stay in cache; very low for V = 0."""
    if not len(z):
        return z.new_full(z.shape[1:], FLOOR)
    peak = z.amax(0)
    total = torch.zeros_like(peak)
    for start in range(0, len(z), block if z.device.type == "cpu" else len(z)):
        total += (z[start : start + block] - peak).exp_().sum(0)
    return peak + total.log()
