"""From plain descriptions to the objects under test."""

import numpy as np

import escd


def vocab(spec):
    return escd.ByteVocab(
        list(spec.token_bytes),
        stop_ids=spec.stop_ids,
        preferred_stop=spec.preferred_stop,
        special_tokens=dict(spec.special_tokens),
    )


def pair(spec):
    """The pair of anything that has a `.student` and a `.teacher`."""
    return escd.TokenizerPair(student=vocab(spec.student), teacher=vocab(spec.teacher))


def groups(built):
    """{(representative, frozenset of teacher ids)}: groups without their numbering."""
    members = np.asarray(built.group_of)
    return {(y, frozenset(np.flatnonzero(members == g).tolist())) for g, y in enumerate(built.group_bytes)}


def completions(built, action):
    """{representative: sorted student ids}."""
    return {built.group_bytes[g]: sorted(ids.tolist()) for g, ids in built.completions(action).items()}
