"""Brute force for what `escd pair` counts, straight from the definitions of docs/pair.md."""

from collections import Counter

import oracle


def projection(student, teacher):
    """Facts about phi as a dictionary."""
    f, content = oracle.phi(student, teacher), teacher.content()
    spelled = set(student.content().values())
    exact = [v for v, b in content.items() if b in spelled]
    bottom = [v for v in content if f[v] < 0]
    reached = {u for u in f if u >= 0} & set(student.content())
    return {
        "content": len(content),
        "exact": len(exact),
        "shortened": len(content) - len(exact) - len(bottom),
        "bottom": len(bottom),
        "coverage": share(len(content) - len(bottom), len(content)),
        "reached": len(reached),
        "reached_share": share(len(reached), len(student.content())),
    }


def groups(student, teacher):
    """Facts about groups as a dictionary."""
    found = oracle.groups(student, teacher)
    sizes = [len(members) for _, members in found]
    entries = [
        (y, action)
        for y, _ in found
        for action in set(student.content().values())
        if y.startswith(action) and y != action
    ]
    sets = {(y, a): [b for b in student.content().values() if b.startswith(y[len(a) :])] for y, a in entries}
    return {
        "candidates": len(oracle.candidates(student, teacher)),
        "groups": len(found),
        "mean_size": share(sum(sizes), len(sizes)),
        "max_size": max(sizes, default=0),
        "singletons": share(sizes.count(1), len(sizes)),
        "branchable": share(len({y for y, _ in entries}), len(found)),
        "completable": share(len({y for (y, _), members in sets.items() if members}), len(found)),
        "entries": len(entries),
        "completable_entries": share(sum(map(bool, sets.values())), len(entries)),
        "overshooting_entries": share(
            sum(any(len(b) > len(y) - len(a) for b in members) for (y, a), members in sets.items()), len(entries)
        ),
    }


def spell(vocab, data):
    """Longest match: ids, and the bytes at the end that are left out."""
    ids = []
    while data:
        token = oracle.longest_prefix(vocab, data)
        if token < 0:
            break
        ids.append(token)
        data = data[len(vocab.bytes_of(token)) :]
    return ids, len(data)


def unspellable(vocab, text):
    return Counter(c for c in text if spell(vocab, c.encode())[1])


def pieces(student, teacher, text):
    """The text without the characters that one of the two cannot spell, cut at them."""
    hopeless = set(unspellable(student, text)) | set(unspellable(teacher, text))
    found, piece = [], ""
    for c in text:
        if c in hopeless:
            found.append(piece)
            piece = ""
        else:
            piece += c
    return [p.encode() for p in [*found, piece] if p]


def sample(student, teacher, text):
    """Sums over the pieces: rows, kinds of teacher tokens, spans, uses."""
    rows, kinds, spans, out = Counter(), Counter(), Counter(), Counter()
    uses, stuck, bottom = {}, Counter(), Counter()
    f = oracle.phi(student, teacher)
    spelled = set(student.content().values())
    for piece in pieces(student, teacher, text):
        ids, left = spell(student, piece)
        out["student_left"] += left
        ids_t, left = spell(teacher, b"".join(map(student.bytes_of, ids)))
        out["teacher_left"] += left
        out.update(student=len(ids), teacher=len(ids_t), bytes=sum(len(student.bytes_of(i)) for i in ids))
        starts, starts_t = oracle.starts(student, ids), oracle.starts(teacher, ids_t)
        end_t = sum(len(teacher.bytes_of(i)) for i in ids_t)
        roots = dict(oracle.roots(student, teacher, ids, ids_t))
        representative = {v: y for y, members in oracle.groups(student, teacher) for v in members}
        children = {
            row + 1
            for row in roots
            if row + 1 < len(ids)
            and starts[row + 1] <= end_t
            and any(oracle.completions(student, ids[row], y) for y in representative.values())
        }
        rows["child"] += len(children)
        for row, at in enumerate(starts):
            blank = not student.bytes_of(ids[row]).strip(b" \t")
            if row in roots and not blank:
                rows["root"] += 1
            elif row not in children:
                out["idle"] += 1
                reason = "blank" if row in roots else "interior"
                if row not in roots and at >= end_t:
                    reason = "no_teacher_row" if at == end_t else "diverged"
                rows[reason] += 1
        for row, column in roots.items():
            end = starts_t[column] + len(teacher.bytes_of(ids_t[column]))
            out["roots"] += 1
            out["overrun"] += starts[row] + len(student.bytes_of(ids[row])) > end
            cost = sum(starts_t[column] <= s < end for s in starts)
            spans[str(cost) if cost < 4 else "4+"] += 1
            uses.setdefault(ids_t[column], []).append(cost)
        for column, v in enumerate(ids_t):
            bottom[v] += f[v] < 0
            if teacher.bytes_of(v) in spelled:
                kinds["exact"] += 1
                continue
            row = next((r for r, c in roots.items() if c == column), None)
            y = representative[v]
            if row is None:
                kinds["inside"] += 1
            elif not y.startswith(student.bytes_of(ids[row])) or y == student.bytes_of(ids[row]):
                kinds["passed"] += 1
            elif oracle.completions(student, ids[row], y):
                kinds["one_step"] += 1
            else:
                kinds["deeper"] += 1
                stuck[y] += 1
    return {"rows": rows, "kinds": kinds, "spans": spans, "uses": uses, "stuck": stuck, "bottom": bottom, **out}


def share(part, whole):
    return part / whole if whole else 0.0
