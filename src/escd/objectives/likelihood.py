"""Objectives that need no teacher rows: cross-entropy on given text and on the teacher's text."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..align import Alignment
from .base import Objective, register
from .rows import Rows, Units, count


@register
class SFT(Objective):
    """Supervised fine-tuning: cross-entropy of the student on the responses of the dataset."""

    name = "sft"
    title = "supervised fine-tuning"
    paper = "2203.02155"
    source = "dataset"
    needs_teacher = False

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`. Every row has a loss, and none needs the teacher."""
        every = np.arange(len(alignment.student_ids))
        none = np.zeros(0, np.int64)
        units = Units(every, none, alignment.student_ids, none, alignment.offsets, none)
        return Rows(
            every, none, np.full(len(every), -1), units=units, counts=count(alignment, every), total=len(every)
        )

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        assert rows.units is not None
        target = torch.from_numpy(rows.units.student_id).to(student_logits.device)
        loss = torch.nn.functional.cross_entropy(student_logits, target, reduction="none")
        return loss, torch.zeros_like(loss)


@register
class SeqKD(SFT):
    """Sequence-level distillation (arXiv 1606.07947): cross-entropy of the student on responses of the teacher."""

    name = "seqkd"
    title = "sequence-level distillation"
    paper = "1606.07947"
    source = "teacher"
