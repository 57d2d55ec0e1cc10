"""`ESCDTrainer`: on-policy distillation from a teacher with its own tokenizer and chat template.

One step: TRL generates the student's responses; their bytes become teacher ids; rows are aligned before any logits
exist; the teacher gives hidden states of the rows that are roots; the tiled objective turns hidden states and heads
into a loss; TRL and accelerate do the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import torch
from accelerate.logging import get_logger
from accelerate.utils import is_peft_model
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl import DistillationTrainer

from .. import align, objective
from ..chat import Bridge, stop_warning
from ..errors import AlignError, ConfigError, StudentError, TeacherError
from ..models import check_path, load_tokenizer
from ..objectives.base import objective_class
from ..objectives.rows import Rows
from ..objectives.tiles import logits_of, tiled_losses
from ..pair import TokenizerPair
from ..teachers import Conversation, LocalTeacher, Teacher
from ..teachers.local import head_of, last_hidden
from ..teachers.served import VLLMTeacher
from ..vocab import ByteVocab
from .card import model_card
from .config import ESCDConfig, as_dict
from .data import split_conversations
from .loading import check_head, check_rows
from .metrics import NAMES, REASONS, Clock, MetricsFile, shares
from .teacher import load_teacher, nothing_learnt
from .turns import Side, Turn, read_turn

logger = get_logger(__name__)


class ESCDTrainer(DistillationTrainer):
    """Distil a teacher into a student with another tokenizer.

    Args:
        model: The student: a model, a PEFT model, a path or a hub id.
        teacher_model: The teacher: a model, a path or a hub id. Its vocabulary may be any.
        args: The configuration.
        train_dataset: Has a column `prompt`, plain text or messages, or a column `messages` of whole conversations, of
            which every turn of the assistant is answered. A column `tools` goes to both chat templates.
        eval_dataset: The same, for evaluation.
        processing_class: Tokenizer of the student; loaded from its path if not given.
        teacher_processing_class: Tokenizer of the teacher; loaded from its path if not given.
        peft_config: Train adapters of this kind instead of all weights.
        **kwargs: Passed on to `trl.DistillationTrainer`: `callbacks`, `optimizers`, `quantization_config`.

    Raises:
        ConfigError: No teacher, no tokenizer, a path that does not exist, tools to be called in a rollout (they are
            not supported).
        VocabError: A tokenizer whose bytes cannot be read exactly.
        TeacherError, StudentError: An lm_head with fewer rows than its tokenizer has ids.
    """

    args: ESCDConfig
    model: Any
    accelerator: Any

    _tag_names: ClassVar = ["trl", "escd", "distillation"]

    def __init__(
        self,
        model: Any,
        teacher_model: Any = None,
        args: ESCDConfig | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        teacher_processing_class: PreTrainedTokenizerBase | None = None,
        peft_config: Any = None,
        **kwargs: Any,
    ):
        self.student_name = name_of(model)
        args = args or ESCDConfig(f"{self.student_name.split('/')[-1]}-ESCD")
        if kwargs.get("tools"):
            raise ConfigError(
                "calling tools in a rollout is not supported; definitions go in a dataset column 'tools'"
            )
        teacher_model = teacher_model if teacher_model is not None else args.teacher_model_name_or_path
        if teacher_model is None:
            raise ConfigError("there is no teacher; set teacher_model or --teacher_model_name_or_path")
        self.teacher_name = name_of(teacher_model)
        trust = {"trust_remote_code": args.trust_remote_code}
        for who, given in (("student", model), ("teacher", teacher_model)):
            if isinstance(given, str):
                check_path(given, who)
        if processing_class is None:
            revision = as_dict(args.model_init_kwargs).get("revision")
            processing_class = load_tokenizer(
                self.student_name, "student", padding_side="left", truncation_side="left", revision=revision, **trust
            )
        if teacher_processing_class is None:
            source = args.teacher_tokenizer_name_or_path or self.teacher_name
            teacher_processing_class = load_tokenizer(source, "teacher", revision=args.teacher_model_revision, **trust)
        if isinstance(teacher_model, str):
            teacher_model = load_teacher(teacher_model, args)
        elif args.teacher_server_url:
            raise ConfigError("teacher_server_url is set, so teacher_model must be the name of its checkpoint")

        given = objective_class(args.objective).source == "dataset"
        train_dataset, eval_dataset = (split_conversations(d, given) for d in (train_dataset, eval_dataset))
        # TRL would insist on one vocabulary for both, so the teacher is ours to hold.
        super().__init__(
            model=model, args=args, train_dataset=train_dataset, eval_dataset=eval_dataset,
            processing_class=processing_class, peft_config=peft_config, **kwargs,
        )  # fmt: skip
        self.teacher_tokenizer = teacher_processing_class
        self.sides = (
            Side(self._tokenizer, as_dict(self.chat_template_kwargs)),
            Side(self.teacher_tokenizer, as_dict(args.teacher_chat_template_kwargs)),
        )
        self._prepare_vocabularies(teacher_model)
        self._prepare_teacher(teacher_model)
        self._sums = {"train": Counter(), "eval": Counter()}
        self._micro_sums: Tensor | None = None
        self._clock = Clock()
        self.dataset_name: str | None = None
        self.add_callback(MetricsFile(str(args.output_dir)))
        columns = getattr(train_dataset, "column_names", None)
        if self.objective.source == "dataset" and columns is not None and "completion" not in columns:
            raise ConfigError(
                f"objective {args.objective!r} learns responses, but the dataset has no column 'completion'"
            )

    def _prepare_vocabularies(self, teacher_model: PreTrainedModel | VLLMTeacher) -> None:
        student, args = self.accelerator.unwrap_model(self.model), self.args
        configs = {"student": student.generation_config, "teacher": teacher_model.generation_config}
        self.student_vocab = ByteVocab.from_tokenizer(self._tokenizer, configs["student"])
        self.teacher_vocab = ByteVocab.from_tokenizer(self.teacher_tokenizer, configs["teacher"])
        check_head(student, self.student_vocab, "student", self.student_name)
        if isinstance(teacher_model, VLLMTeacher):
            check_rows(teacher_model.head(), self.teacher_vocab, "teacher", self.teacher_name)
        else:
            check_head(teacher_model, self.teacher_vocab, "teacher", self.teacher_name)
        for who, tokenizer, vocab in (
            ("student", self._tokenizer, self.student_vocab),
            ("teacher", self.teacher_tokenizer, self.teacher_vocab),
        ):
            if warning := stop_warning(tokenizer, vocab, configs[who], who):
                logger.warning(warning)
        self.pair = TokenizerPair.cached(self.student_vocab, self.teacher_vocab, args.pair_cache_dir)
        self.bridge = Bridge(self.student_vocab, self.teacher_vocab)
        self.objective = objective(args.objective, self.pair, **args.objective_options())
        # Every stop id ends a rollout, the chat template's included.
        self.eos_token_ids = list(self.student_vocab.stop_ids)
        # So does it in whatever runs the trained student.
        student.generation_config.eos_token_id = self.eos_token_ids
        # Rows of a padded head are no tokens: sampling one would end in an id that nothing can spell.
        columns = student.get_output_embeddings().weight.shape[0]
        padding = [*(self.generation_kwargs.get("suppress_tokens") or []), *range(len(self.student_vocab), columns)]
        for name, value in (("eos_token_id", self.eos_token_ids), ("suppress_tokens", padding or None)):
            setattr(self.generation_config, name, value)
            self.generation_kwargs[name] = value

    def _prepare_teacher(self, teacher_model: PreTrainedModel | VLLMTeacher) -> None:
        if isinstance(teacher_model, VLLMTeacher):
            self.teacher: Teacher = teacher_model
            teacher_model.to(self.accelerator.device)
            some: Any = self.train_dataset or ()
            prompts = [self.turn(example).teacher for example in islice(some, 4)]
            if self.objective.source == "teacher":
                teacher_model.check_generation(prompts)
            elif self.objective.needs_teacher:
                folder = Path(str(self.args.output_dir)) if self.is_world_process_zero() else None
                length = self.args.max_completion_length or 0
                teacher_model.check(prompts, len(self.teacher_vocab), length, folder)
            return
        teacher_model.requires_grad_(False)
        wrapped = self.accelerator.prepare_model(teacher_model, evaluation_mode=True)
        self.teacher_model = wrapped
        self.teacher = LocalTeacher(
            wrapped, self.accelerator.unwrap_model(wrapped), self.teacher_name, self._forward_redirection
        )

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        # Resumed from its last step, the loop would train one step more before it looks at the count.
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)

    # -- rollout ------------------------------------------------------------------------------------------------

    def _tokenize_prompts(self, prompts: list):
        return [turn.student for turn in self._step_turns], None, {}

    def _set_signature_columns_if_needed(self):
        super()._set_signature_columns_if_needed()
        self._signature_columns += [c for c in ("completion", "tools") if c not in self._signature_columns]

    def _generate_single_turn(self, prompt_ids, *args: Any, **kwargs: Any):
        if self.objective.source != "student":
            return self._given_responses()
        try:
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        except RuntimeError as error:
            if "probability tensor contains" not in str(error):
                raise
            raise self._diagnose(prompt_ids) from error

    def _given_responses(self) -> list[list[int]]:
        """Responses of this step that are not the student's own, in student ids."""
        limit, end = self.args.max_completion_length, self.student_vocab.preferred_stop
        assert end is not None  # the bridge insists on it
        if self.objective.source == "teacher":
            prompts = [turn.teacher for turn in self._step_turns]
            with nothing_learnt(self.state.global_step + 1, str(self.args.output_dir)):
                found = self.teacher.generate(prompts, self.teacher_vocab.stop_ids, self.args)
            found = [self.bridge.to_student(ids).ids for ids in found]
        else:
            found = [turn.given or [] for turn in self._step_turns]
        # A response that came out longer than a rollout may be is cut as a rollout would be. None is empty.
        return [ids[:limit] or [end] for ids in found]

    def turn(self, example: dict[str, Any]) -> Turn:
        """One row of the dataset as both models see it."""
        return read_turn(example, self.objective.source, *self.sides, self.student_vocab)

    @torch.no_grad()
    def _diagnose(self, prompt_ids: list[list[int]]) -> StudentError:
        """Which prompt and row a student's NaN comes from, after sampling failed on it."""
        model = self.accelerator.unwrap_model(self.model)
        where = "in the middle of a response"
        for number, ids in enumerate(prompt_ids):
            hidden, _ = last_hidden(model, [Conversation(ids, [])])
            bad = torch.nonzero(~logits_of(head_of(model), hidden[0]).isfinite().all(0))
            if len(bad):
                where = f"at prompt {number} of this step, row {int(bad[0])}"
                break
        return StudentError(
            f"student {self.student_name!r}: its logits are NaN or infinite {where} "
            f"(step {self.state.global_step + 1}); lower the learning rate, or check the weights"
        )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        with self._clock.measure("align"):
            self._step_turns = [self.turn(example) for example in inputs]
        with self._clock.measure("rollout"):
            output = super()._generate_and_score_completions(inputs)
        with self._clock.measure("align"):
            prompts = _unpadded(output["prompt_ids"], output["prompt_mask"])
            responses = _unpadded(output["completion_ids"], output["completion_mask"])
            output["student"] = [Conversation(p, r) for p, r in zip(prompts, responses, strict=True)]
            output["teacher"] = [
                Conversation(turn.teacher, self.bridge.to_teacher(response).ids)
                for turn, response in zip(self._step_turns, responses, strict=True)
            ]
            alignments = [
                align(self.pair, s.response, t.response)
                for s, t in zip(output["student"], output["teacher"], strict=True)
            ]
            output["rows"] = [self.objective.rows(alignment) for alignment in alignments]
            output["same_bytes"] = [alignment.same_bytes for alignment in alignments]
        self._require_rows(output["rows"])
        return output

    def _require_rows(self, rows: list[Rows]) -> None:
        """Raise if nothing at all is supervised: training on would be a no-op."""
        local = torch.tensor(sum(len(r.student) for r in rows), device=self.accelerator.device)
        if int(self.accelerator.reduce(local, "sum")) == 0:
            counts = dict(sum((r.counts for r in rows), Counter()))
            raise AlignError(
                f"step {self.state.global_step + 1}: not one of {sum(r.total for r in rows)} response rows is "
                f"supervised ({counts}); a longer max_completion_length may help"
            )

    # -- loss ---------------------------------------------------------------------------------------------------

    def _compute_loss(self, unwrapped_student: Any, inputs: dict[str, Any], num_items_in_batch: Any):
        students, teachers, each = inputs["student"], inputs["teacher"], inputs["rows"]
        with self._clock.measure("teacher"):
            if self.objective.needs_teacher:
                with nothing_learnt(self.state.global_step + 1, str(self.args.output_dir)):
                    teacher_hidden = self.teacher.hidden_rows(teachers, [r.teacher for r in each])
            else:
                teacher_hidden = torch.empty(0, self.teacher.head().width)
        with self._clock.measure("student"):
            hidden, starts = last_hidden(unwrapped_student, students)
        # The teacher's rows come back one conversation after the other, so only those of the student are shifted.
        rows = Rows.stack(each, starts)
        head = head_of(unwrapped_student)
        hidden = hidden.reshape(-1, hidden.shape[-1]).to(head.weight.device)
        denominator = num_items_in_batch if num_items_in_batch is not None else max(rows.total, 1)
        with self._clock.measure("loss"):
            out = tiled_losses(
                self.objective, rows, hidden, head, teacher_hidden.to(hidden.device), self.teacher.head(),
                denominator, self.args.tile_megabytes * 2**20,
            )  # fmt: skip
        self._require_finite(out, each)
        sums = {
            **{reason: rows.counts[reason] for reason in REASONS},
            "rows": rows.total, "root_rows": rows.counts["root"], "child_rows": rows.counts["child"],
            "responses": len(each), "differ": inputs["same_bytes"].count(False),
            **{name: float(getattr(out, name).sum()) for name in ("root", "child", "mass", "completed")},
        }  # fmt: skip
        self._micro_sums = torch.tensor([float(sums[n]) for n in NAMES], dtype=torch.float64, device=hidden.device)
        return out.loss, out.entropy.sum(), torch.tensor(len(out.entropy), device=hidden.device)

    def _require_finite(self, out: Any, each: list[Rows]) -> None:
        for error, who, name, bad, sizes, pick in (
            (TeacherError, "teacher", self.teacher_name, out.bad_teacher, [len(r.teacher) for r in each], "teacher"),
            (StudentError, "student", self.student_name, out.bad_student, [len(r.student) for r in each], "student"),
        ):
            if len(bad):
                position, response = int(bad[0]), 0
                while position >= sizes[response]:
                    position -= sizes[response]
                    response += 1
                raise error(
                    f"{who} {name!r}: its logits are NaN or infinite at response {response} of this batch, row "
                    f"{int(getattr(each[response], pick)[position])} (step {self.state.global_step + 1}); nothing was "
                    "learnt from this step"
                )

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None):
        """See `transformers.Trainer.compute_loss`; adds this micro-batch to the figures of the step."""
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        totals = self.accelerator.reduce(self._micro_sums, "sum")
        mode = "train" if self.model.training else "eval"
        self._sums[mode].update(dict(zip(NAMES, totals.tolist(), strict=True)))
        return result

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """See `transformers.Trainer.log`; adds the figures of the steps since the last log."""
        mode = "train" if self.model.training else "eval"
        if self._sums[mode]["rows"]:
            steps = max(len(self._metrics[mode]["step_time"]), 1)
            self._metrics[mode].update({name: [value] for name, value in shares(self._sums[mode]).items()})
            self._metrics[mode].update({f"time/{k}": [v / steps] for k, v in self._clock.seconds.items()})
            self._metrics[mode].update({k: [v] for k, v in self.teacher.figures(steps).items()})
            self._sums[mode].clear()
            self._clock.seconds.clear()
        super().log(logs, start_time)

    def end(self) -> None:
        """See `transformers.Trainer.end`."""
        super().end()
        if self.accelerator.num_processes > 1 and self.accelerator.device.type == "cpu":
            # gloo's thread needs the interpreter to drop its last collective. If the process group is freed before it
            # has, both wait for each other for good.
            time.sleep(0.5)

    # -- saving -------------------------------------------------------------------------------------------------

    def create_model_card(
        self, model_name: str | None = None, dataset_name: str | None = None, tags: str | list[str] | None = None
    ) -> None:
        """Write README.md: student, teacher, objective, paper."""
        if not self.is_world_process_zero():
            return
        from .. import __version__

        overlap = self.pair.overlap()
        card = model_card(
            model_name=model_name or self.student_name,
            student=self.student_name,
            teacher=self.teacher_name,
            rows=self.teacher.rows,
            objective=self.args.objective,
            options=self.args.objective_options(),
            overlap=(overlap.shared, len(self.teacher_vocab), len(self.student_vocab)),
            dataset=dataset_name or self.dataset_name,
            tags=[*self._tag_names, *([tags] if isinstance(tags, str) else tags or [])],
            base_model=self.student_name if self.student_name.count("/") == 1 else None,
            repo=self.hub_model_id or str(self.args.output_dir),
            version=__version__,
        )
        card.save(f"{self.args.output_dir}/README.md")


def _unpadded(ids: Tensor, mask: Tensor) -> list[list[int]]:
    return [row[kept].tolist() for row, kept in zip(ids, mask.bool(), strict=True)]


def name_of(model: Any) -> str:
    """Path or hub id of a model."""
    if isinstance(model, str):
        return model
    base = model.get_base_model() if is_peft_model(model) else model
    return getattr(base.config, "_name_or_path", "") or type(base).__name__
