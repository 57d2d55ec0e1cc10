"""The model card of a distilled student."""

from __future__ import annotations

from typing import Any

import accelerate
import datasets
import tokenizers
import torch
import transformers
import trl
from huggingface_hub import ModelCard, ModelCardData

from ..objectives.base import objective_class

_HOW = {
    "student": (
        "the student generates, the teacher scores the same bytes with its own tokenizer, and the student learns from "
        "it although their tokens do not match"
    ),
    "teacher": "the student learns responses that the teacher generated",
    "dataset": "the student learns the responses of the dataset",
}

_TEXT = """---
{card_data}
---

# {model_name}

{student} distilled from {teacher} by **{method}** ({paper}): {how}.

| | |
|---|---|
| Student | {student} |
| Teacher | {teacher}, {rows} |
| Objective | `{objective}` {options} |
| Shared tokens | {shared} of {v_t} teacher tokens and of {v_s} student tokens |
| Dataset | {dataset} |

## Use

```python
from transformers import pipeline

generator = pipeline("text-generation", model="{repo}")
messages = [{{"role": "user", "content": "..."}}]
print(generator(messages, max_new_tokens=256, return_full_text=False)[0]["generated_text"])
```

## Training

Trained with escd {version}, TRL {trl}, Transformers {transformers}, PyTorch {torch},
Accelerate {accelerate}, Datasets {datasets}, Tokenizers {tokenizers}.

## Citation

The software and the method it is built around: Liu, Song, Zhang, Chen, Zhang: *Beyond Token Alignment: Event
Completion for Cross-Tokenizer On-Policy Distillation*,
arXiv [2609.34738](https://arxiv.org/abs/2609.34738), 2026.

```bibtex
{citation}
```
"""

CITATION = """@article{liu2026escd,
  title   = {Beyond Token Alignment: Event Completion for Cross-Tokenizer On-Policy Distillation},
  author  = {Liu and Song and Zhang and Chen and Zhang},
  journal = {arXiv preprint arXiv:2609.34738},
  year    = {2026}
}"""


def model_card(
    *,
    model_name: str,
    student: str,
    teacher: str,
    rows: str,
    objective: str,
    options: dict[str, Any],
    overlap: tuple[int, int, int],
    dataset: str | None,
    tags: list[str],
    base_model: str | None,
    repo: str,
    version: str,
) -> ModelCard:
    """A card that names student, teacher, objective and paper.

    Args:
        model_name: Title.
        student, teacher: How to call them: hub id or path.
        rows: Where its rows came from, see `Teacher.rows`.
        objective: Name of the objective.
        options: Its options.
        overlap: Shared tokens, teacher vocabulary size, student vocabulary size.
        dataset: Hub id or path of the prompts.
        tags: Hub tags.
        base_model: Hub id of the student before training, if it has one.
        repo: Hub id or path of the new student.
        version: Version of escd.
    """
    data = ModelCardData(
        base_model=base_model, library_name="transformers", model_name=model_name, pipeline_tag="text-generation",
        datasets=[dataset] if dataset and dataset.count("/") == 1 and not dataset.startswith(".") else None,
        tags=sorted({"generated_from_trainer", *tags}),
    )  # fmt: skip
    shared, v_t, v_s = overlap
    kind = objective_class(objective)
    return ModelCard(
        _TEXT.format(
            card_data=data.to_yaml(), model_name=model_name, student=f"`{student}`", teacher=f"`{teacher}`", rows=rows,
            method=kind.title, paper=f"arXiv [{kind.paper}](https://arxiv.org/abs/{kind.paper})",
            how=_HOW[kind.source],
            objective=objective, options=", ".join(f"`{k}={v}`" for k, v in options.items()),
            shared=shared, v_t=v_t, v_s=v_s, dataset=f"`{dataset}`" if dataset else "not named",
            repo=repo, version=version, trl=trl.__version__, transformers=transformers.__version__,
            torch=torch.__version__, accelerate=accelerate.__version__, datasets=datasets.__version__,
            tokenizers=tokenizers.__version__, citation=CITATION,
        )
    )  # fmt: skip
