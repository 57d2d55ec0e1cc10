"""Brute force of the peer objectives (method section 8), like `oracle` without anything of the library.

The teacher is plain numbers. The student's log-probabilities are torch scalars in float64, so that automatic
differentiation of these loops is the gradient to compare with. Every function takes the fields of a scene, the
student's logits as a tensor, and gives the losses [n] of the response's rows.
"""

import itertools
import math
import re

import torch

import oracle

# ---------------------------------------------------------------- what both sides share


def shared_pairs(student, teacher):
    """One-to-one pairs (student id, teacher id): preferred stops, equal bytes, special tokens of equal spelling."""
    pairs = []
    if student.stop() is not None and teacher.stop() is not None:
        pairs.append((student.stop(), teacher.stop()))
    for mine, theirs in (
        (student.content(), teacher.content()),
        (dict(student.special_tokens), dict(teacher.special_tokens)),
    ):
        for u in sorted(mine):
            for v in sorted(theirs):
                if mine[u] == theirs[v] and all(u != a and v != b for a, b in pairs):
                    pairs.append((u, v))
    return pairs


def aligned_units(student, teacher, student_ids, teacher_ids):
    """Minimal aligned units: [(student rows, teacher rows)] between neighbouring offsets where both cut the text."""
    limit = oracle.common_prefix(student, teacher, student_ids, teacher_ids)
    starts_s, starts_t = oracle.starts(student, student_ids), oracle.starts(teacher, teacher_ids)
    ends = [sum(len(v.bytes_of(i)) for i in ids) for v, ids in ((student, student_ids), (teacher, teacher_ids))]
    cuts = sorted(o for o in {*starts_s, ends[0]} & {*starts_t, ends[1]} if o <= limit)
    out = []
    for low, high in itertools.pairwise(cuts):
        rows = [[row for row, o in enumerate(side) if low <= o < high] for side in (starts_s, starts_t)]
        if rows[0] and rows[1]:
            out.append((rows[0], rows[1]))
    for i, j in oracle.roots(student, teacher, student_ids, teacher_ids)[-1:]:
        if student_ids[i] in student.stop_ids and teacher_ids[j] in teacher.stop_ids:
            out.append(([i], [j]))
    return out


def log_softmax(logits):
    """Log-probabilities of every teacher row, as plain numbers."""
    return [[float(z) - oracle.log_sum(row, range(len(row))) for z in row] for row in logits]


def exp(log_q):
    return 0.0 if log_q == -math.inf else math.exp(log_q)


def log(x):
    return -math.inf if x == 0 else math.log(x)


def kl_term(log_a, log_b):
    """a log(a / b) with 0 log 0 = 0; either may be the student's."""
    log_a, log_b = (torch.as_tensor(x, dtype=torch.float64) for x in (log_a, log_b))
    return log_a.new_zeros(()) if log_a.exp() == 0 else log_a.exp() * (log_a - log_b)


def divergence(log_q, log_p, beta):
    """One event's term of KL(q || p), KL(p || q), or the generalised Jensen-Shannon divergence between them."""
    if beta == 0:
        return kl_term(log_q, log_p)
    if beta == 1:
        return kl_term(log_p, log_q)
    mixture = torch.logaddexp(log_p + math.log(1 - beta), torch.tensor(log_q + math.log(beta), dtype=torch.float64))
    return beta * kl_term(log_q, mixture) + (1 - beta) * kl_term(log_p, mixture)


def log_total(log_p, columns):
    """Log-probability of some of the student's columns, None if all are impossible."""
    possible = [log_p[j] for j in columns if log_p[j] > -math.inf]
    return torch.logsumexp(torch.stack(possible), 0) if possible else None


def reverse_kl(scores):
    """KL(softmax of student scores || softmax of teacher scores) of [(student score, teacher score)].

    What the teacher excludes takes no part.
    """
    scores = [(s, t) for s, t in scores if t > -math.inf]
    mine, theirs = [s for s, _ in scores], [t for _, t in scores]
    if not scores:
        return 0.0
    whole_s, whole_t = torch.logsumexp(torch.stack(mine), 0), oracle.log_sum(theirs, range(len(theirs)))
    return sum(kl_term(s - whole_s, t - whole_t) for s, t in scores)


def response(logits, losses):
    """[n] from {row: loss}; 0 where there is none."""
    out = [logits[:0].sum() + losses.get(row, 0.0) for row in range(len(logits))]
    return torch.stack(out) if out else logits.sum(-1)


# ---------------------------------------------------------------- bpm


def bpm(student, teacher, logits, teacher_logits, student_ids, teacher_ids, beta=0.0, mask_whitespace_roots=True):
    log_p = logits.log_softmax(-1)
    what = oracle.supervision(
        student, teacher, teacher_logits, student_ids, teacher_ids, logits.shape[1], "none",
        mask_whitespace_roots=mask_whitespace_roots,
    )  # fmt: skip
    losses = {}
    for row, token in enumerate(student_ids):
        if what.root[row] is not None:
            cells, bottom = spanning(student, teacher, teacher_logits, student_ids, teacher_ids, row, what.root[row])
        else:
            found = interior(student, teacher, teacher_logits, student_ids, teacher_ids, row)
            if found is None:
                continue
            cells, bottom = found
        chosen = 0.0 if token in student.stop_ids else beta
        floor = 1e-8 if chosen > 0 else 0.0
        loss = sum(divergence(log(max(t, floor)), log_p[row, u], chosen) for u, t in cells.items())
        log_rest = log_total(log_p[row], [j for j in range(logits.shape[1]) if j not in cells])
        if log_rest is not None:
            loss = loss + divergence(log(max(bottom, floor)), log_rest, chosen)
        losses[row] = loss
    return response(logits, losses)


def spanning(student, teacher, teacher_logits, student_ids, teacher_ids, row, root):
    """Cells and rest of a root; the mass of the realised teacher tokens goes to a sampled token that spans them."""
    cells, bottom = dict(root.cells), root.bottom
    u, long = student_ids[row], student.bytes_of(student_ids[row])
    first = dict(oracle.roots(student, teacher, student_ids, teacher_ids))[row]
    if not 0 < len(teacher.bytes_of(teacher_ids[first])) < len(long):
        return cells, bottom
    path, text, log_mass = first, b"", 0.0
    while path < len(teacher_ids) and len(text) < len(long):
        log_mass += log_softmax(teacher_logits)[path][teacher_ids[path]]
        text += teacher.bytes_of(teacher_ids[path])
        path += 1
    if not text.startswith(long):
        return cells, bottom
    entry = oracle.phi(student, teacher)[teacher_ids[first]]
    if entry < 0:
        bottom = max(bottom - exp(log_mass), 0.0)
    else:
        cells[entry] = max(cells[entry] - exp(log_mass), 0.0)
    cells[u] = cells.get(u, 0.0) + exp(log_mass)
    return cells, bottom


def interior(student, teacher, teacher_logits, student_ids, teacher_ids, row):
    """Cells and rest of a row inside a teacher token, None elsewhere."""
    offset = oracle.starts(student, student_ids)[row]
    if offset > oracle.common_prefix(student, teacher, student_ids, teacher_ids):
        return None
    for at, start in enumerate(oracle.starts(teacher, teacher_ids)):
        realised = teacher.bytes_of(teacher_ids[at])
        if start < offset < start + len(realised):
            done = realised[: offset - start]
            break
    else:
        return None
    cells, bottom = {}, []
    z = teacher_logits[at]
    compatible = [v for v, b in teacher.content().items() if b.startswith(done)]
    for v in compatible:
        rest = teacher.content()[v][len(done) :]
        u = oracle.longest_prefix(student, rest[: len(realised) - len(done)])
        if u < 0:
            bottom.append(v)
        else:
            cells.setdefault(u, []).append(v)
    return (
        {u: oracle.share_of(z, sources, compatible) for u, sources in cells.items()},
        oracle.share_of(z, bottom, compatible),
    )


# ---------------------------------------------------------------- simct, strict, kl


def simct(student, teacher, logits, teacher_logits, student_ids, teacher_ids, units="visited"):
    log_p, log_q = logits.log_softmax(-1), log_softmax(teacher_logits)
    losses = {}
    for mine, theirs in aligned_units(student, teacher, student_ids, teacher_ids):
        here, there = mine[0], theirs[0]
        scores = [(log_p[here, u], log_q[there][v]) for u, v in shared_pairs(student, teacher)]
        candidates = []  # what to call it, student score, teacher score
        if len(mine) > 1 or len(theirs) > 1:
            candidates.append(
                (
                    ([student_ids[i] for i in mine], [teacher_ids[j] for j in theirs]),
                    sum(log_p[i, student_ids[i]] for i in mine) / len(mine),
                    sum(log_q[j][teacher_ids[j]] for j in theirs) / len(theirs),
                )
            )
        if units == "visited" and len(mine) > 1:
            a = student_ids[here]
            entered = student.bytes_of(a)
            for v, text in oracle.candidates(student, teacher).items():
                rest = text[len(entered) :]
                spelled = [u for u, b in sorted(student.content().items()) if b == rest]
                if entered and text.startswith(entered) and spelled:
                    u = spelled[0]
                    score = (log_p[here, a] + log_p[mine[1], u]) / 2
                    candidates.append((([a, u], [v]), score, log_q[there][v]))
        seen = []
        for name, s, t in candidates:
            if name not in seen:
                seen.append(name)
                scores.append((s, t))
        losses[here] = reverse_kl(scores)
    return response(logits, losses)


def strict(student, teacher, logits, teacher_logits, student_ids, teacher_ids):
    log_p, log_q = logits.log_softmax(-1), log_softmax(teacher_logits)
    losses = {}
    for mine, theirs in aligned_units(student, teacher, student_ids, teacher_ids):
        if len(mine) == len(theirs) == 1:
            pairs = shared_pairs(student, teacher)
            losses[mine[0]] = reverse_kl([(log_p[mine[0], u], log_q[theirs[0]][v]) for u, v in pairs])
    return response(logits, losses)


def kl(student, teacher, logits, teacher_logits, student_ids, teacher_ids, beta=0.0):
    log_p, log_q = logits.log_softmax(-1), log_softmax(teacher_logits)
    size = len(student.token_bytes)
    losses = {}
    for mine, theirs in aligned_units(student, teacher, student_ids, teacher_ids):
        if len(mine) == len(theirs) == 1:
            q = log_q[theirs[0]]
            losses[mine[0]] = sum(divergence(q[j], log_p[mine[0], j], beta) for j in range(size))
            padded = log_total(log_p[mine[0]], range(size, logits.shape[1]))
            if padded is not None:
                losses[mine[0]] += divergence(oracle.log_sum(q, range(size, len(q))), padded, beta)
    return response(logits, losses)


# ---------------------------------------------------------------- gold, uld, xtoken, alm


def sorted_distance(mine, theirs):
    """L1 distance of probabilities in falling order, zero padded."""
    size = max(len(mine), len(theirs))
    mine = torch.stack(mine).sort(descending=True).values
    theirs = sorted(theirs, reverse=True)
    return sum(abs((mine[k] if k < len(mine) else 0.0) - (theirs[k] if k < len(theirs) else 0.0)) for k in range(size))


def uld(student, teacher, logits, teacher_logits, student_ids, teacher_ids):
    p, log_q = logits.softmax(-1), log_softmax(teacher_logits)
    losses = {}
    for mine, theirs in aligned_units(student, teacher, student_ids, teacher_ids):
        losses[mine[0]] = sorted_distance(list(p[mine[0]]), [exp(q) for q in log_q[theirs[0]]])
    return response(logits, losses)


def merged(student_ids, teacher_ids, log_p, log_q, unit):
    """Log of the first row's distribution times the probability of the unit's later tokens, in both models."""
    mine, theirs = unit
    return (
        log_p[mine[0]] + sum(log_p[i, student_ids[i]] for i in mine[1:]),
        [q + sum(log_q[j][teacher_ids[j]] for j in theirs[1:]) for q in log_q[theirs[0]]],
    )


def gold(student, teacher, logits, teacher_logits, student_ids, teacher_ids, beta=0.5, matched_weight=None):
    log_p, log_q = logits.log_softmax(-1), log_softmax(teacher_logits)
    pairs = shared_pairs(student, teacher)
    losses = {}
    for unit in aligned_units(student, teacher, student_ids, teacher_ids):
        p, q = merged(student_ids, teacher_ids, log_p, log_q, unit)
        matched = sum(divergence(q[v], p[u], beta) for u, v in pairs)
        rest_s = [p[u].exp() for u in range(len(p)) if all(u != a for a, _ in pairs)]
        rest_t = [exp(q[v]) for v in range(len(q)) if all(v != b for _, b in pairs)]
        unmatched = sorted_distance(rest_s, rest_t) if rest_s and rest_t else 0.0
        w = len(pairs) / len(q) if matched_weight is None else matched_weight
        losses[unit[0][0]] = w * matched + (1 - w) * unmatched
    return response(logits, losses)


def spell(vocab, data):
    """Ids of a text by longest match, bytes that are no UTF-8 one by one; they end where no token fits."""
    ids = []
    for piece in re.split("([\udc80-\udcff])", data.decode("utf-8", "surrogateescape")):
        raw = piece.encode("utf-8", "surrogateescape")
        while raw:
            u = oracle.longest_prefix(vocab, raw)
            if u < 0:
                return ids
            ids.append(u)
            raw = raw[len(vocab.bytes_of(u)) :]
    return ids


def projection(student, teacher, top):
    """W of xtoken: {student id: {teacher id: weight}}."""
    pairs = dict(shared_pairs(student, teacher))
    weights = {u: {v: 1.0} for u, v in pairs.items()}
    for u, b in student.content().items():
        if u not in pairs:
            ids = spell(teacher, b)[:top]
            parts = [0.9 * 0.1**i for i in range(len(ids))]
            weights[u] = {}
            for v, part in zip(ids, parts, strict=True):
                weights[u][v] = weights[u].get(v, 0.0) + part / sum(parts)
    return weights


def averaged(rows):
    """Softmax of the mean log-probability of each column, as logarithms."""
    means = torch.stack([torch.as_tensor(row, dtype=torch.float64) for row in rows]).mean(0)
    return means - torch.logsumexp(means, 0)


def xtoken(student, teacher, logits, teacher_logits, student_ids, teacher_ids, top=4, merge="product"):
    log_p, log_q = logits.log_softmax(-1), log_softmax(teacher_logits)
    weights = projection(student, teacher, top)
    losses = {}
    for unit in aligned_units(student, teacher, student_ids, teacher_ids):
        mine, theirs = unit
        _, q = merged(student_ids, teacher_ids, log_p, log_q, unit)
        first, later = log_p[mine[0]], sum(log_p[i, student_ids[i]] for i in mine[1:])
        if merge == "mean":
            first, later = averaged([log_p[i] for i in mine]), 0.0
            q = averaged([log_q[j] for j in theirs]).tolist()
        loss = 0.0
        for v in range(len(q)):  # what W does not reach costs a constant
            reached = sum(first[u].exp() * row[v] for u, row in weights.items() if v in row) + 1e-10
            loss = loss + kl_term(q[v], torch.as_tensor(reached, dtype=torch.float64).log() + later)
        losses[mine[0]] = loss
    return response(logits, losses)


def alm(student, teacher, logits, teacher_logits, student_ids, teacher_ids, power=0.01):
    log_p, log_q = logits.log_softmax(-1), log_softmax(teacher_logits)
    least = torch.finfo(torch.float64).eps
    losses = {}
    for mine, theirs in aligned_units(student, teacher, student_ids, teacher_ids):
        mine_log = power * sum(log_p[i, student_ids[i]] for i in mine)
        theirs_log = power * sum(log_q[j][teacher_ids[j]] for j in theirs)
        target = math.exp(theirs_log)
        other = (-torch.expm1(mine_log)).clamp_min(least).log()
        losses[mine[0]] = -target * mine_log - (1 - target) * other
    return response(logits, losses)


# ---------------------------------------------------------------- sft, seqkd


def likelihood(student, teacher, logits, teacher_logits, student_ids, teacher_ids):
    log_p = logits.log_softmax(-1)
    return response(logits, {row: -log_p[row, token] for row, token in enumerate(student_ids)})
