"""The plain answer: will this pair work, why, and what to do. `docs/pair.md` gives the reason of every threshold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.sample import SampleFacts, Unspelled
from ..report.words import percent

if TYPE_CHECKING:
    from .report import ModelFacts

# Shares. Of the characters of the text that the teacher cannot spell: each ends what is supervised of a response.
UNSPELLED = 0.01
# Of the teacher's tokens in the text that map to ⊥: from the first on it is worth a word, from the second too much.
BOTTOM, TOO_MUCH_BOTTOM = 0.001, 0.1
# Of the student's rows that lie inside teacher tokens without a loss.
INTERIOR = 0.15
# Of the root rows whose student token runs past the end of the teacher's.
OVERRUN = 0.1
# Of the entered teacher tokens, how many have a one-step completion; asked only if enough are entered.
ONE_STEP, ENTERED = 0.8, 0.02
# Teacher mass expected on a child row.
CHILD_MASS = 0.1
# Of the lines of the text that the teacher's normaliser changes.
CHANGED = 0.01

HEADLINES = {
    "same": "The same tokenizer on both sides: plain distillation, take objective kl.",
    "good": "Works well.",
    "caveats": "Works, but:",
    "fails": "Will not work:",
}


@dataclass(frozen=True)
class Finding:
    """One thing that a user should know.

    Attributes:
        code: Its name, which stays.
        weight: `fatal`: it will not work; `but`: it costs something; `note`: good to know.
        text: What was found, in a sentence.
        advice: What to do, "" if there is nothing to do.
    """

    code: str
    weight: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer.

    Attributes:
        level: `same`, `good`, `caveats` or `fails`.
        headline: The same in words.
        flags: Flags for `escd distill` that the findings advise.
        findings: Why, the weightiest first.
    """

    level: str
    headline: str
    flags: list[str]
    findings: list[Finding]


def judge(**facts: Any) -> Verdict:
    """The verdict on the facts of a `PairReport`."""
    found = sorted(_findings(**facts), key=lambda f: ("fatal", "but", "note").index(f.weight))
    weights = {f.weight for f in found}
    level = "fails" if "fatal" in weights else "caveats" if "but" in weights else "good"
    codes = {f.code for f in found}
    if facts["identical"]:
        flags = ["--objective", "kl"]
        level = "same" if level == "good" else level
    elif codes & {"long_teacher_tokens", "overrun"}:
        flags = ["--objective", "bpm"]
    else:
        flags = ["--completion", "deep"] if "deeper" in codes else []
    return Verdict(level, HEADLINES[level], flags if level != "fails" else [], found)


def _findings(**facts: Any) -> Iterator[Finding]:
    teacher, student, sample = facts["teacher"], facts["student"], facts["sample"]
    for who, model in (("teacher", teacher), ("student", student)):
        yield from _model(who, model)
    yield from _spelling(teacher, sample)
    if facts["identical"]:
        text = "both vocabularies have the same tokens with the same ids; the child loss is 0, the root loss plain KL"
        yield Finding("identical", "note", text, "--objective kl")
    else:
        yield from _supervision(sample)
    yield from _templates(teacher, student)
    yield from _rewriting(teacher)


def _model(who: str, model: ModelFacts) -> Iterator[Finding]:
    size = model.vocabulary.size
    if model.vocabulary.preferred_stop is None:
        yield Finding("no_stop", "fatal", f"the {who}'s tokenizer has no stop token", "set its eos_token")
    if model.head_rows is not None and model.head_rows < size:
        text = f"the {who}'s configuration has {model.head_rows:,} token ids and its tokenizer {size:,}"
        yield Finding("small_head", "fatal", text, "take the tokenizer that belongs to the model")
    if model.stop_warning:
        yield Finding("stops_differ", "note", model.stop_warning)


def _spelling(teacher: ModelFacts, sample: SampleFacts) -> Iterator[Finding]:
    lost = sample.unspelled["teacher"]
    if lost.bytes:
        text = f"the teacher cannot spell {_of_text(lost)}; a response is supervised up to the first of them"
        weight = "fatal" if lost.share >= UNSPELLED else "but"
        yield Finding("unspelled", weight, text, "measure on text of your task with --text, or take another teacher")
    lost = sample.unspelled["student"]
    if lost.bytes:
        yield Finding(
            "student_unspelled", "but", f"the student cannot spell {_of_text(lost)} and will never write them"
        )
    if missing := len(teacher.vocabulary.missing_in_text):
        text = (
            f"the teacher has no token for {missing} of the single bytes that occur in UTF-8 text; where the length "
        )
        text += "limit cuts a response within a character, its last rows may have no teacher"
        yield Finding("missing_bytes", "note", text)
    if sample.bottom >= BOTTOM:
        weight = "fatal" if sample.bottom >= TOO_MUCH_BOTTOM else "but"
        text = f"{percent(sample.bottom)} of the teacher's tokens in the text begin with bytes that no student token "
        text += "begins with (⊥); there the student learns only to write none of the teacher's other tokens"
        yield Finding("bottom", weight, text, "take another student, or prompts whose answers do without them")


def _of_text(lost: Unspelled) -> str:
    shown = " ".join(f"'{c}'" for c in lost.examples)
    return f"{percent(lost.share)} of the text's characters ({shown})"


def _supervision(sample: SampleFacts) -> Iterator[Finding]:
    interior, entered = sample.rows["interior"], sample.tokens["one_step"] + sample.tokens["deeper"]
    if interior >= INTERIOR:
        text = f"{percent(interior)} of the student's tokens lie inside longer teacher tokens, where ESCD has no loss"
        yield Finding("long_teacher_tokens", "but", text, "--objective bpm, which has a target at each of them")
    if sample.overrun >= OVERRUN:
        text = f"{percent(sample.overrun)} of the student's tokens at roots run past the end of the teacher's token; "
        text += "there ESCD's root loss prefers a shorter token to the one that the student wrote"
        yield Finding("overrun", "but", text, "--objective bpm, which credits the token that was written")
    if entered >= ENTERED and sample.one_step < ONE_STEP:
        text = (
            f"{percent(1 - sample.one_step)} of the teacher tokens that the student enters need more than one further "
        )
        yield Finding("deeper", "but", text + "token of the student", "--completion deep")
    if sample.child_mass < CHILD_MASS:
        text = "nearly every teacher token in the text is one student token"
        if sample.rows["child"]:
            text += f"; at a child row the teacher's mass to complete is about {percent(sample.child_mass)}"
        yield Finding("little_child_mass", "note", text + "; the child loss has little to do")


def _templates(teacher: ModelFacts, student: ModelFacts) -> Iterator[Finding]:
    both = {"teacher": teacher.template, "student": student.template}
    for who, template in both.items():
        if template is None:
            text = f"the {who} has no chat template"
            yield Finding(
                "no_template", "but", text, "give prompts as plain text, or set the tokenizer's chat_template"
            )
            continue
        for name, outcome in (("user", template.plain), ("system", template.system), ("tool", template.tools)):
            if outcome != "yes":
                verb = "rejects" if outcome == "rejected" else "leaves out"
                weight = "but" if name == "user" else "note"
                yield Finding(f"{name}_{outcome}", weight, f"the {who}'s chat template {verb} {name} messages")
    if None not in both.values():
        thoughts = {who: template.thought for who, template in both.items() if template}
        if len(set(thoughts.values())) > 1:
            said = {"no": "starts no thought", "open": "opens a thought", "closed": "writes an empty thought"}
            text = "; ".join(f"the {who}'s template {said[t]}" for who, t in thoughts.items()) + " before the response"
            advice = "make both do the same with --chat_template_kwargs and --teacher_chat_template_kwargs"
            yield Finding("thoughts_differ", "but", text, advice)
    known = {t.text for t in student.vocabulary.thoughts}
    if missing := [t.text for t in teacher.vocabulary.thoughts if t.text not in known]:
        text = f"{', '.join(missing)}: one token of the teacher, several of the student, since it has no such token"
        yield Finding("thought_markers", "note", text)


def _rewriting(teacher: ModelFacts) -> Iterator[Finding]:
    found = teacher.rewriting
    if found is None:
        return
    if found.normalizers:
        text = f"the teacher's tokenizer normalises text ({', '.join(found.normalizers)}), which changes "
        text += f"{found.changed_lines} of {found.lines} lines; escd gives the teacher the bytes as they stand"
        if changed := found.changed_lines / max(found.lines, 1):
            text += ", in a form that it has not seen in training"
        yield Finding("normalised", "but" if changed >= CHANGED else "note", text)
    if found.prefix_space:
        text = (
            "the teacher's tokenizer puts a space before a text; escd does not, so the first word of a response may "
        )
        yield Finding("prefix_space", "note", text + "be cut in another way")
    if found.cleans_spaces:
        text = "decode() of the teacher's tokenizer takes away spaces before punctuation; escd does not use it"
        yield Finding("cleans_spaces", "note", text)
