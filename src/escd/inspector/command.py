"""`escd inspect`: a page that shows what every row of some responses is taught."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from .. import datasets_by_name
from ..chat import Bridge, Prompt
from ..errors import ConfigError, EscdError
from ..evaluation.sampling import sample_batches
from ..flags import json_mapping
from ..objectives.escd import ESCD
from ..pair import TokenizerPair
from ..training.arguments import DistillArguments
from ..training.data import load_prompts
from ..training.turns import Turn, read_turn
from .arguments import InspectArguments, parse
from .page import write_page
from .record import Inspector
from .responses import Given, read_given
from .sides import Side, load_side


def main(argv: Sequence[str]) -> None:
    """Run `escd inspect`.

    Raises:
        EscdError: Anything about flags, files, tokenizers, models or the page's place that the user can mend.
    """
    args = parse(argv)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    datasets_by_name.quiet()
    if args.torch_threads:
        torch.set_num_threads(args.torch_threads)
    target = _writable(args.output_file)
    given = read_given(args.text, args.num_responses) if args.text else None
    prompts = None if given is not None else _prompts(args)
    with_models = not args.no_models and (given is None or any(x.prompt is not None for x in given))
    student, teacher = load_sides(args, with_models)
    pair = TokenizerPair.cached(student.vocab, teacher.vocab)
    inspector = Inspector(ESCD(pair, **args.options()))
    bridge = Bridge(student.vocab, teacher.vocab)
    found = (
        _answers(student, teacher, prompts, args)
        if prompts is not None
        else [_spelled(student, x) for x in given or []]
    )
    records = []
    for title, prompt, ids in found:
        translated = bridge.to_teacher(ids)
        try:
            scores = None
            if with_models and prompt is not None:
                turn = _turn(student, teacher, prompt)
                scores = student.scores(turn.student, ids), teacher.scores(turn.teacher, translated.ids)
            record = inspector.record(ids, translated.ids, scores)
        except EscdError as error:
            raise type(error)(f"response {title}: {error}") from error
        records.append({"title": title, "prompt": prompt, "ended": translated.ended, **record})
    try:
        write_page(target, inspector, records, (student.name, teacher.name))
    except OSError as error:
        raise ConfigError(_unwritable(args.output_file, error)) from error
    kinds = sum((Counter(r["kind"]) for r in records), Counter())
    told = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in kinds.most_common())
    print(f"rows      {kinds.total()}: {told}")
    if not with_models:
        print(f"          no probabilities: {'--no_models' if args.no_models else 'the text has no prompt'}")
    print(f"page      {target}")


def load_sides(args: InspectArguments, with_models: bool) -> tuple[Side, Side]:
    """Student and teacher: the one place where `escd inspect` loads anything."""
    student, teacher = str(args.model_name_or_path), str(args.teacher_model_name_or_path)
    kwargs: dict[str, Any] = {
        "with_model": with_models, "trust_remote_code": args.trust_remote_code, "dtype": args.dtype,
        "attn_implementation": args.attn_implementation,
    }  # fmt: skip
    own, other = (json_mapping(n, getattr(args, n)) for n in ("chat_template_kwargs", "teacher_chat_template_kwargs"))
    return (
        load_side("student", student, template_kwargs=own, revision=args.model_revision, **kwargs),
        load_side(
            "teacher", teacher, args.teacher_tokenizer_name_or_path, template_kwargs=other,
            revision=args.teacher_model_revision, **kwargs,
        ),
    )  # fmt: skip


Answer = tuple[str, Prompt | None, list[int]]
"""Title, prompt, and ids with the stop, if there is one."""


def _spelled(student: Side, given: Given) -> Answer:
    """A given response in the tokens that the student's tokenizer gives for it."""
    ids, lost = student.vocab.encode(given.data)
    if lost:
        raise ConfigError(
            f"{given.title}: the student's tokenizer cannot spell it from byte {len(given.data) - lost} on "
            f"({given.data[len(given.data) - lost :][:12]!r}...); leave that out, or take another student"
        )
    stop = student.vocab.preferred_stop
    return given.title, given.prompt, ids + ([stop] if given.finished and stop is not None else [])


def _prompts(args: InspectArguments) -> list[Prompt]:
    script = DistillArguments(
        dataset_name=args.dataset_name, dataset_config=args.dataset_config, lab_prompts=args.num_responses,
        dataset_train_split=args.dataset_train_split,
    )  # fmt: skip
    data = load_prompts(script, args.seed)
    return [row["prompt"] for row, _ in zip(data, range(args.num_responses), strict=False)]


def _turn(student: Side, teacher: Side, prompt: Prompt) -> Turn:
    """The prompt in both models' ids, as a step of training has it."""
    return read_turn({"prompt": prompt}, "student", student.chat, teacher.chat, student.vocab)


def _answers(student: Side, teacher: Side, prompts: list[Prompt], args: InspectArguments) -> list[Answer]:
    """The student's own responses, ids as sampled."""
    rows = [_turn(student, teacher, prompt).student for prompt in prompts]
    longest = max(map(len, rows))
    room = (student.context or longest + args.max_new_tokens) - longest
    if room < 1:
        raise ConfigError(f"the longest prompt has {longest} tokens, the student's context only {student.context}")
    sampling, found = replace(args.sampling, max_new_tokens=min(args.max_new_tokens, room)), {}
    for batch in sample_batches(student.model, student.tokenizer, rows, sampling, batch_size=16):
        found.update(batch)
    return [(f"{args.dataset_name}:{i + 1}", prompt, found[i, 0].ids) for i, prompt in enumerate(prompts)]


def _writable(name: str) -> Path:
    """Where the page goes, known to be a place for a file before anything is loaded."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise ConfigError(f"--output_file {name!r} is a folder; give a file, as {str(path / 'inspect.html')!r}")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        raise ConfigError(_unwritable(name, error)) from error


def _unwritable(name: str, error: OSError) -> str:
    return f"--output_file {name!r} cannot be written: {error.strerror or error}"
