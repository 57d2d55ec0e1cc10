"""`escd distill`: one run from flags to a saved student, its metrics and its report."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate.utils import broadcast_object_list
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from trl import get_peft_config, get_quantization_config

from .. import __version__, datasets_by_name
from ..errors import ConfigError, EscdError, first_line
from ..evaluation.run import evaluate
from ..evaluation.scores import Score, Scores
from ..evaluation.tasks import Task, load_tasks
from ..files import write_whole
from ..models import path_of
from ..objectives.base import objective_class
from ..report import write_report
from .arguments import DistillArguments, Request, parse
from .config import ESCDConfig, as_dict
from .data import load_prompts
from .folders import checkpoint_step, choose_output_dir, last_checkpoint, resume_value
from .progress import CompactProgress, close_bars
from .teacher import ROWS
from .trainer import ESCDTrainer


def main(argv: Sequence[str]) -> None:
    """Run `escd distill`.

    Raises:
        EscdError: Anything about flags, recipe, dataset, models or folders that the user can mend.
    """
    request = parse(argv)
    script, training = request.script, request.training
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers.utils.logging.disable_progress_bar()
    datasets_by_name.quiet()
    if script.torch_threads:
        torch.set_num_threads(script.torch_threads)
    resume: Any = resume_value(training.resume_from_checkpoint)
    # One process decides: the others would find its folder taken.
    chosen = [""]
    if training.process_index == 0:
        chosen = [choose_output_dir(request.output_dir, request.run, resume)]
    training.output_dir = broadcast_object_list(chosen)[0]
    if resume is True:
        resume = last_checkpoint(training.output_dir)
    from_dataset = objective_class(training.objective).source == "dataset"
    prompts = load_prompts(script, training.seed, completions=from_dataset)
    tasks = load_tasks(script.eval_task or [], limit=script.eval_problems, seed=training.seed)
    keep = resume is not None or training.process_index > 0
    with _nothing_half_done(training.output_dir, keep) as progress:
        trainer = progress.trainer = _trainer(request, prompts)
        progress.start = checkpoint_step(resume) or 0 if resume else 0
        _Run(trainer, script, training, prompts, tasks).run(resume)


@dataclasses.dataclass
class _Progress:
    """How far a run has got: the step of the checkpoint that it starts from, and the trainer that counts on."""

    start: int = 0
    trainer: ESCDTrainer | None = None

    @property
    def moved(self) -> bool:
        return self.trainer is not None and self.trainer.state.global_step > self.start


@contextmanager
def _nothing_half_done(folder: str, keep: bool) -> Iterator[_Progress]:
    """A run that breaks off before it has trained a step ends in one line; a new one leaves nothing behind.

    Args:
        folder: Of the run.
        keep: Whether the folder stays as it is: it was there before, or another process looks after it.
    """
    existing = _folders(folder)
    progress = _Progress()
    try:
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
        except (OSError, ValueError) as error:  # ValueError: a character that no path can hold
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"--output_dir {folder!r} cannot be written to: {reason}") from error
        yield progress
    except BaseException as error:
        if progress.trainer is not None:
            close_bars(progress.trainer)
        if progress.moved:
            raise
        if not keep:
            for entry in os.scandir(folder) if os.path.isdir(folder) else ():
                shutil.rmtree(entry) if entry.is_dir() else os.unlink(entry)
            for made in reversed(_folders(folder)[len(existing) :]):
                if not os.listdir(made):  # another run may have put its folder beside this one
                    os.rmdir(made)
        if isinstance(error, EscdError) or not isinstance(error, Exception):
            raise
        # What libraries say of an option or a model before anything was trained is about what the user gave.
        raise ConfigError(f"the run cannot go on: {type(error).__name__}: {first_line(error)}") from error


class _Run:
    """A trainer, the folder that it writes to, and what is told about it."""

    def __init__(
        self, trainer: ESCDTrainer, script: DistillArguments, training: ESCDConfig, prompts: Any, tasks: list[Task]
    ):
        self.trainer, self.script, self.training, self.prompts = trainer, script, training, prompts
        self.tasks = tasks
        self.folder = Path(str(training.output_dir))
        self.main = trainer.is_world_process_zero()
        self.settings = {
            "prompts": len(prompts) if hasattr(prompts, "__len__") else "streamed",
            **_changed(script),
            **_changed(training),
        }

    def run(self, resume: str | None) -> None:
        """Evaluate, train, save, evaluate, report."""
        if resume:
            self.require_same_run()
        self.require_enough_prompts()
        self.require_templates()
        before = self.evaluate("before", keep=bool(resume))
        self.describe(before, [])
        self.trainer.train(resume_from_checkpoint=resume)
        if not self.trainer.state.global_step:
            raise ConfigError("not one step was trained; raise --max_steps or --num_train_epochs")
        self.trainer.save_model(str(self.folder))
        self.trainer.save_state()
        if self.main:
            shutil.rmtree(self.folder / ROWS, ignore_errors=True)  # a finished run is not resumed
        self.trainer.create_model_card(Path(self.folder).name, dataset_name=self.script.dataset_name)
        after = self.evaluate("after")
        self.describe(before, after)
        if self.main:
            report = write_report(self.folder)
            self.tell(before, after, report)
        if self.training.push_to_hub:
            self.trainer.push_to_hub(dataset_name=self.script.dataset_name)
        self.trainer.end()

    def require_same_run(self) -> None:
        """Raise unless this run is the one that its folder describes."""
        path = self.folder / "run.json"
        if not path.is_file():
            return
        try:
            before = json.loads(path.read_bytes())
        except ValueError:
            before = None
        if not isinstance(before, dict):
            raise ConfigError(f"{str(path)!r} is damaged; delete it, and the same command resumes the run without it")
        for name, value in self.identity().items():
            if before.get(name, value) != value:
                raise ConfigError(
                    f"--output_dir {str(self.folder)!r} holds a run with {name} {before[name]!r}, not {value!r}; "
                    "resume with the same, or start in a new folder"
                )

    def require_enough_prompts(self) -> None:
        """Raise if the prompts do not fill one step: nothing would be trained."""
        args, prompts = self.training, self.settings["prompts"]
        batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
        if isinstance(prompts, int) and prompts < batch:
            raise ConfigError(
                f"dataset {self.script.dataset_name!r} has {prompts} prompts, but one step takes {batch}; lower "
                "--per_device_train_batch_size or --gradient_accumulation_steps"
            )

    def require_templates(self) -> None:
        """Raise unless both models can render the first prompt."""
        self.trainer.turn(next(iter(self.prompts)))

    def identity(self) -> dict[str, Any]:
        """What a resumed run must have in common with the one that it continues."""
        return {
            "student": self.trainer.student_name, "teacher": self.trainer.teacher_name,
            "objective": self.training.objective, "options": self.training.objective_options(),
            "dataset": self.script.dataset_name,
        }  # fmt: skip

    def evaluate(self, when: str, keep: bool = False) -> list[Scores]:
        """Sample the problems of every evaluation task; a resumed run keeps the answers it has."""
        script, trainer, found = self.script, self.trainer, []
        source = script.eval_before_from if when == "before" else None
        if source and self.main:
            self.take_over(source)
        for task in self.tasks if self.main else ():
            scores = evaluate(
                trainer.accelerator.unwrap_model(trainer.model), trainer.processing_class, task,
                self.folder / "evaluation" / when / f"{task.file_name}.jsonl", samples=script.eval_samples,
                temperature=script.eval_temperature, top_p=script.eval_top_p, top_k=script.eval_top_k,
                max_new_tokens=script.eval_max_new_tokens or self.training.max_completion_length,
                batch_size=script.eval_batch_size, seed=self.training.seed,
                description=f"Evaluating {when}: {task.name}", keep=keep or bool(source),
                chat_template_kwargs=as_dict(trainer.chat_template_kwargs),
            )  # fmt: skip
            found.append(scores)
        trainer.accelerator.wait_for_everyone()
        return found

    def take_over(self, source: str) -> None:
        """Copy the answers of the untrained student that another run has sampled; `evaluate` checks that they fit."""
        answers, target = Path(source) / "evaluation" / "before", self.folder / "evaluation" / "before"
        if not os.path.isdir(answers):
            raise ConfigError(f"--eval_before_from {source!r} holds no answers from before training")
        if not target.is_dir():
            shutil.copytree(answers, target)

    def describe(self, before: list[Scores], after: list[Scores]) -> None:
        """Write `run.json`: what the report needs beyond the metrics."""
        if not self.main:
            return
        trainer, overlap = self.trainer, self.trainer.pair.overlap()
        evaluation = [
            {
                "task": task.name, "description": task.description, "problems": first.problems,
                "samples": first.samples, "temperature": self.script.eval_temperature,
                "top_p": self.script.eval_top_p, "top_k": self.script.eval_top_k,
                "before": _told(first), "after": _told(last),
            }
            for task, first, last in zip_longest(self.tasks, before, after)
        ]  # fmt: skip
        content = {
            **self.identity(), "settings": self.settings, "version": __version__,
            "overlap": {
                "shared": overlap.shared, "teacher_vocabulary": len(trainer.teacher_vocab),
                "student_vocabulary": len(trainer.student_vocab),
            },
            "evaluation": evaluation,
        }  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / "run.json", json.dumps(content, indent=1, default=str))

    def tell(self, before: list[Scores], after: list[Scores], report: Path) -> None:
        """The last lines on the terminal."""
        lines = [""]
        for task, first, last in zip(self.tasks, before, after, strict=True):
            what = f"avg@{first.samples} on {first.problems} problems of {task.name}, 95 % interval"
            lines += [f"accuracy before   {_percent(first.average)}   ({what})",
                      f"accuracy after    {_percent(last.average)}"]  # fmt: skip
            if first.average.overlaps(last.average):
                lines.append("                  the intervals overlap: this run shows no certain change")
        lines += [f"student           {self.folder}", f"report            {report}"]
        print("\n".join(lines))


def _trainer(request: Request, prompts: Any) -> ESCDTrainer:
    script, training, model = request.script, request.training, request.model
    names = str(model.model_name_or_path), str(training.teacher_model_name_or_path)
    student, teacher = map(path_of, names)
    training.model_init_kwargs = {
        "revision": model.model_revision, "attn_implementation": model.attn_implementation, "dtype": model.dtype,
        **as_dict(training.model_init_kwargs),
    }  # fmt: skip
    if training.eval_strategy != "no":
        raise ConfigError("eval_strategy is not used here; set eval_task to judge the student before and after")
    trainer = ESCDTrainer(
        model=student, teacher_model=teacher, args=training, train_dataset=prompts,
        peft_config=get_peft_config(model), quantization_config=get_quantization_config(model),
    )  # fmt: skip
    # Cards and reports call the models what the user calls them.
    trainer.student_name, trainer.teacher_name = names
    trainer.dataset_name = script.dataset_name
    if any(isinstance(c, ProgressCallback) for c in trainer.callback_handler.callbacks):
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(CompactProgress)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _folders(path: str) -> list[str]:
    """The folder and its parents, outermost first, as far as they exist."""
    parts = [str(p) for p in (Path(path), *Path(path).parents)][::-1]
    return [p for p in parts if os.path.isdir(p)]


def _changed(config: Any) -> dict[str, Any]:
    """Fields that differ from their defaults."""
    out = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name, None)
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        if value != default and isinstance(value, (str, int, float, bool, dict, list)) and not f.name.startswith("_"):
            out[f.name] = value
    return out


def _told(scores: Scores | None) -> dict[str, Any] | None:
    """Scores for `run.json`: avg@k with its interval, and pass@k."""
    if scores is None:
        return None
    return {
        **dataclasses.asdict(scores.average),
        "pass_at": {k: dataclasses.asdict(s) for k, s in scores.pass_at.items()},
    }


def _percent(s: Score) -> str:
    return f"{100 * s.accuracy:5.1f} %  [{100 * s.low:.1f}, {100 * s.high:.1f}]"
