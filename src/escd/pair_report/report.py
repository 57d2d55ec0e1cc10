"""Everything that `escd pair` measures of two models, as one record."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from .. import __version__
from ..analysis.rewriting import Rewriting, rewriting
from ..analysis.sample import SampleFacts, sample_facts
from ..analysis.static import GroupFacts, Projection, StopFacts, group_facts, projection, stop_facts
from ..analysis.templates import TemplateFacts, template_facts
from ..analysis.vocabulary import VocabFacts, vocab_facts
from ..chat import stop_warning
from ..pair import Overlap, TokenizerPair
from .loading import Side
from .verdict import Verdict, judge

SCHEMA = 1  # raise it when a key of the JSON goes or changes its meaning


@dataclass(frozen=True)
class ModelFacts:
    """One of the two models.

    Attributes:
        name: As the user named it.
        head_rows: Rows of its lm_head, None where its configuration is not known.
        vocabulary: Its tokens.
        template: Its chat template, None without one.
        rewriting: What its tokenizer does to text, None for other than fast tokenizers.
        stop_warning: What disagrees about what ends a response, None if nothing does.
    """

    name: str
    head_rows: int | None
    vocabulary: VocabFacts
    template: TemplateFacts | None
    rewriting: Rewriting | None
    stop_warning: str | None


@dataclass(frozen=True)
class PairReport:
    """What `escd pair` tells. `docs/pair.md` explains every number.

    Attributes:
        teacher, student: The two models.
        identical: Whether both have the same tokens with the same ids.
        overlap: Shared tokens, one to one (paper B.2).
        projection: How teacher tokens enter the student's vocabulary.
        groups: Candidates, groups and completion sets.
        stops: What ends a response.
        text: Name of the sample text.
        sample: What was measured on it.
        verdict: The plain answer.
    """

    teacher: ModelFacts
    student: ModelFacts
    identical: bool
    overlap: Overlap
    projection: Projection
    groups: GroupFacts
    stops: StopFacts
    text: str
    sample: SampleFacts
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON has it; the keys of a `schema` stay."""
        return {"schema": SCHEMA, "escd": __version__, **dataclasses.asdict(self)}


def measure(
    teacher: Side,
    student: Side,
    text: str,
    text_name: str,
    template_kwargs: dict[str, Any] | None = None,
    teacher_template_kwargs: dict[str, Any] | None = None,
) -> PairReport:
    """Measure a pair.

    Args:
        teacher, student: The models.
        text: Sample text.
        text_name: How the report names it.
        template_kwargs, teacher_template_kwargs: For the chat templates of student and teacher.
    """
    pair = TokenizerPair.cached(student=student.vocab, teacher=teacher.vocab)
    facts = {
        "teacher": _model(teacher, "teacher", text, teacher_template_kwargs),
        "student": _model(student, "student", text, template_kwargs),
        "identical": pair.student.token_bytes == pair.teacher.token_bytes,
        "overlap": pair.overlap(),
        "projection": projection(pair),
        "groups": group_facts(pair),
        "stops": stop_facts(pair),
        "text": text_name,
        "sample": sample_facts(pair, text),
    }
    return PairReport(**facts, verdict=judge(**facts))


def _model(side: Side, who: str, text: str, template_kwargs: dict[str, Any] | None) -> ModelFacts:
    return ModelFacts(
        name=side.name,
        head_rows=side.head_rows,
        vocabulary=vocab_facts(side.vocab),
        template=template_facts(side.tokenizer, template_kwargs),
        rewriting=rewriting(side.tokenizer, text),
        stop_warning=stop_warning(side.tokenizer, side.vocab, side.generation_config, who),
    )
