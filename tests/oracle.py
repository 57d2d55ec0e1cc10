"""Brute force: every definition of the method written down literally, slowly, in float64.

Nothing here is shared with the library, and nothing is clever: sets are found by scanning vocabularies,
groups by walking a graph, losses by loops over columns. Section numbers refer to the method.
"""

import math
from typing import NamedTuple

import numpy as np


class Vocab(NamedTuple):
    """The arguments of `escd.ByteVocab`."""

    token_bytes: list
    stop_ids: tuple = ()
    preferred_stop: int | None = None
    special_tokens: tuple = ()  # (id, spelling) of tokens that are not content

    def content(self):
        """{id: bytes} of the tokens that render as response bytes."""
        return {i: b for i, b in enumerate(self.token_bytes) if b and i not in self.stop_ids}

    def bytes_of(self, token):
        """Bytes a token adds to the response: none if it is not content."""
        return self.content().get(token, b"")

    def stop(self):
        """The preferred stop id: the first one unless told, None without stops."""
        if self.preferred_stop is not None:
            return self.preferred_stop
        return self.stop_ids[0] if len(self.stop_ids) else None


# ---------------------------------------------------------------- sections 2 and 3: static facts


def longest_prefix(student, text):
    """Id of the longest student content token that is a prefix of `text`; lowest id on ties; -1 if none."""
    best = -1
    best_length = 0
    for u, piece in sorted(student.content().items()):
        if text.startswith(piece) and len(piece) > best_length:
            best, best_length = u, len(piece)
    return best


def phi(student, teacher):
    """[V_T] student id of every teacher token, -1 for the rest bin (section 2; stops: section 6)."""
    same = student.content() == teacher.content() and len(student.token_bytes) == len(teacher.token_bytes)
    out = []
    for v in range(len(teacher.token_bytes)):
        if v in teacher.stop_ids:
            out.append(-1 if student.stop() is None else student.stop())
        elif v in teacher.content():
            # The same vocabulary twice must be plain KL (section 8), so tokens with equal bytes stay themselves.
            out.append(v if same else longest_prefix(student, teacher.content()[v]))
        else:
            out.append(-1)
    return out


def candidates(student, teacher, retained=None):
    """{teacher id: bytes} of content tokens that are not exactly one student content token; with a sparse teacher of
    the retained tokens only."""
    spelled = set(student.content().values())
    some = teacher.content().items()
    return {v: b for v, b in some if b not in spelled and (retained is None or v in retained)}


def groups(student, teacher, retained=None):
    """Connected components of the prefix relation: [(representative bytes, frozenset of teacher ids)]."""
    todo = candidates(student, teacher, retained)
    texts = dict(todo)
    out = []
    while todo:
        start, _ = todo.popitem()
        members, frontier = {start}, [start]
        while frontier:
            x = texts[frontier.pop()]
            for v in list(todo):
                if texts[v].startswith(x) or x.startswith(texts[v]):
                    del todo[v]
                    members.add(v)
                    frontier.append(v)
        out.append((min((texts[v] for v in members), key=len), frozenset(members)))
    return out


def completions(student, action, y, option="set"):
    """Student tokens that complete the representative `y` after `action` (section 3, options: section 7)."""
    return completing(student, student.bytes_of(action), y, option)


def completing(student, path, y, option):
    """The same after any sampled bytes."""
    if not path or not y.startswith(path) or len(path) == len(y) or option == "none":
        return set()
    rest = y[len(path) :]
    members = {u for u, b in student.content().items() if b.startswith(rest)}
    if option in ("set", "deep"):
        return members
    if option == "exact":
        return {u for u in members if student.bytes_of(u) == rest}
    if option == "single":
        return members & {longest_prefix(student, rest)}
    if option == "minimal":
        shortest = min((len(student.bytes_of(u)) for u in members), default=0)
        return {u for u in members if len(student.bytes_of(u)) == shortest}
    raise ValueError(option)


def overlap(student, teacher):
    """(shared, shared/|V_T|, shared/|V_S|, Jaccard) of a one-to-one pairing (section 9)."""
    pairs = []
    for mine, theirs in (
        (student.content(), teacher.content()),
        (dict(student.special_tokens), dict(teacher.special_tokens)),
    ):
        for v, name in theirs.items():
            free = [u for u, other in mine.items() if other == name and all(u != taken for taken, _ in pairs)]
            if free:
                pairs.append((free[0], v))
    stops = student.stop(), teacher.stop()
    if None not in stops and all(stops[side] != pair[side] for pair in pairs for side in (0, 1)):
        pairs.append(stops)
    shared = len(pairs)
    v_s, v_t = len(student.token_bytes), len(teacher.token_bytes)
    return shared, shared / v_t, shared / v_s, shared / (v_t + v_s - shared)


# ---------------------------------------------------------------- section 1: rows of one response


def starts(vocab, ids):
    """Byte offset at which every row starts."""
    return [sum(len(vocab.bytes_of(i)) for i in ids[:row]) for row in range(len(ids))]


def common_prefix(student, teacher, student_ids, teacher_ids):
    """Number of leading bytes on which the two sides agree."""
    s = b"".join(student.bytes_of(i) for i in student_ids)
    t = b"".join(teacher.bytes_of(i) for i in teacher_ids)
    length = 0
    while length < min(len(s), len(t)) and s[length] == t[length]:
        length += 1
    return length


def roots(student, teacher, student_ids, teacher_ids):
    """[(student row, teacher row)], the first teacher row of every offset."""
    limit = common_prefix(student, teacher, student_ids, teacher_ids)
    teacher_starts = starts(teacher, teacher_ids)
    return [
        (row, teacher_starts.index(offset))
        for row, offset in enumerate(starts(student, student_ids))
        if offset <= limit and offset in teacher_starts
    ]


# ---------------------------------------------------------------- sections 2 to 4: losses


def log_sum(logits, columns):
    """Log-sum-exp of some columns; -inf for none."""
    values = [float(logits[j]) for j in columns]
    top = max(values, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(sum(math.exp(z - top) for z in values))


def softmax(logits):
    total = log_sum(logits, range(len(logits)))
    return [math.exp(float(z) - total) for z in logits]


class Root(NamedTuple):
    cells: dict  # student id in U: teacher mass
    bottom: float  # teacher mass of the rest bin
    outside: list  # student columns outside U


class Child(NamedTuple):
    mass: float  # target or weight of the group
    columns: set  # completion set
    rest: bool = False  # this is the bin of all columns that complete nothing


class Supervision(NamedTuple):
    root: list  # Root or None, per student row
    child: list  # list of Child, per student row


def supervision(
    student,
    teacher,
    teacher_logits,
    student_ids,
    teacher_ids,
    columns,
    completion="set",
    completion_weight="mass",
    rest_bin=False,
    mask_whitespace_roots=True,
    sparse=False,
):
    """What every student row is trained on; `columns` is the width of the student's logits.

    sparse: the teacher's rows hold retained tokens only, all others are at -inf. Columns beyond its vocabulary hold
    what is missing. U is what the retained tokens enter by.
    """
    f = phi(student, teacher)
    n = len(student_ids)
    root, child = [None] * n, [[] for _ in range(n)]
    limit = common_prefix(student, teacher, student_ids, teacher_ids)
    for row, teacher_row in roots(student, teacher, student_ids, teacher_ids):
        q = softmax(teacher_logits[teacher_row])
        retained = {v for v in range(len(f)) if teacher_logits[teacher_row][v] > -math.inf} if sparse else None
        a = student.bytes_of(student_ids[row])
        blank = bool(a) and not a.strip(b" \t")
        if not (blank and mask_whitespace_roots):
            image = {u for v, u in enumerate(f) if u >= 0 and (retained is None or v in retained)}
            cells = {u: math.fsum(q[v] for v in range(len(f)) if f[v] == u) for u in image}
            bottom = math.fsum(q[v] for v in range(len(q)) if v >= len(f) or f[v] < 0)
            root[row] = Root(cells, bottom, [j for j in range(columns) if j not in image])
        entered = {}  # (row, bytes sampled since the root): what is completed there
        for y, members in groups(student, teacher, retained):
            place = supervised_at(student, student_ids, row, y, completion, limit)
            if place is not None:
                entered.setdefault(place, []).append((members, completing(student, place[1], y, completion)))
        for (at, path), chosen in entered.items():
            z = teacher_logits[teacher_row]
            compatible = {v for v, b in teacher.content().items() if b.startswith(path)}
            whole = compatible if rest_bin or completion_weight == "posterior" else range(len(z))
            child[at] += [Child(share_of(z, members, whole), members_s) for members, members_s in chosen]
            if rest_bin:
                left = compatible.difference(*(members for members, _ in chosen))
                columns_left = set(range(columns)).difference(*(members_s for _, members_s in chosen))
                child[at].append(Child(share_of(z, left, whole), columns_left, rest=True))
    return Supervision(root, child)


def supervised_at(student, student_ids, root, y, completion, limit):
    """(row, bytes sampled since the root) at which the group of `y` has its child loss, None if nowhere."""
    offsets = starts(student, student_ids)
    path = b""
    for row in range(root + 1, len(student_ids)):
        step = student.bytes_of(student_ids[row - 1])
        path += step
        if not step or offsets[row] > limit or not y.startswith(path) or path == y:
            return None
        if completing(student, path, y, completion):
            return row, path
        if completion != "deep":
            return None
    return None


def entropy_term(t, log_p):
    """t log(t / p) with 0 log 0 = 0."""
    return 0.0 if t == 0 else t * (math.log(t) - log_p)


def row_losses(student, teacher, student_logits, teacher_logits, student_ids, teacher_ids, **options):
    """(root [n], child [n]) of one response."""
    n, columns = np.shape(student_logits)
    what = supervision(student, teacher, teacher_logits, student_ids, teacher_ids, columns, **options)
    root, child = np.zeros(n), np.zeros(n)
    for row, z in enumerate(student_logits):
        total = log_sum(z, range(columns))
        if what.root[row] is not None:
            cells, bottom, outside = what.root[row]
            root[row] = sum(entropy_term(t, float(z[u]) - total) for u, t in cells.items())
            if outside:
                root[row] += entropy_term(bottom, log_sum(z, outside) - total)
        for mass, chosen, rest in what.child[row]:
            log_p = log_sum(z, chosen) - total
            if rest and log_p == -math.inf:
                continue
            if mass > 0:
                child[row] += entropy_term(mass, log_p) if options.get("rest_bin") else -mass * log_p
    return root, child


def share_of(logits, some, columns):
    """Probability of some of `columns` among all of these; 0 where they have none."""
    top = log_sum(logits, some)
    return 0.0 if top == -math.inf else math.exp(top - log_sum(logits, columns))


def row_gradients(
    student, teacher, student_logits, teacher_logits, student_ids, teacher_ids, child_weight=1.0, **options
):
    """[n, columns] closed-form gradient of sum(root + child_weight * child) (section 3)."""
    n, columns = np.shape(student_logits)
    what = supervision(student, teacher, teacher_logits, student_ids, teacher_ids, columns, **options)
    out = np.zeros((n, columns))
    for row, z in enumerate(student_logits):
        total = log_sum(z, range(columns))
        for j in range(columns):
            p_j = math.exp(float(z[j]) - total)
            if what.root[row] is not None:
                cells, bottom, outside = what.root[row]
                # without a column outside U the rest bin has no term, so its mass pulls on nothing
                pulled = 1.0 if outside else 1.0 - bottom
                if j in cells:
                    out[row, j] += p_j * pulled - cells[j]
                else:
                    out[row, j] += p_j - bottom * share_of(z, [j], outside)
            for mass, chosen, rest in what.child[row]:
                if rest and log_sum(z, chosen) == -math.inf:
                    continue
                inside = share_of(z, [j], chosen) if j in chosen else 0.0
                out[row, j] += child_weight * mass * (p_j - inside)
    return out
