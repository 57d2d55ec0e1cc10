"""The figures of a run: what each draws, what it means, what is healthy, and what to do if it is not."""

from __future__ import annotations

from dataclasses import dataclass

from .figures import Line, Panel


@dataclass(frozen=True)
class Chart:
    """A figure and its explanation.

    Attributes:
        key: Name of the figure in links.
        title: Its heading.
        panels: What it draws.
        what: What it shows.
        healthy: How it should look.
        otherwise: What to do if it does not.
        parts: Whether the lines of its only panel are parts of a whole, to be stacked.
        whole: Metric that holds the whole, if the parts may fall short of it.
    """

    key: str
    title: str
    panels: tuple[Panel, ...]
    what: str
    healthy: str
    otherwise: str
    parts: bool = False
    whole: str | None = None

    @property
    def lines(self) -> list[Line]:
        """Everything that the figure draws."""
        return [line for panel in self.panels for line in panel.all_lines]

    @property
    def optional(self) -> set[str]:
        """Metrics whose absence is normal."""
        return {panel.dots.metric for panel in self.panels if panel.dots}


CHARTS = (
    Chart(
        "loss",
        "Loss",
        (
            Panel(
                "nats per response token",
                (Line("loss", "loss"), Line("root", "root"), Line("child", "child")),
                dots=Line("eval_loss", "evaluation"),
            ),
        ),
        "How far the student's next-token distribution is from the teacher's, on text that the student itself wrote. "
        "Root: where a token of both starts at the same byte. Child: one row later, where the student still has to "
        "complete what the teacher's token says. Loss = root + child_weight × child.",
        "Falls quickly, then levels off. Steps differ by chance, since each has other prompts and responses. "
        "The level depends on both models and on the objective: compare it within a run only.",
        "Flat: raise the learning rate, or see which rows are supervised. Rising or NaN: lower the learning rate. "
        "Near 0 all at once: look at the response length. Empty responses have a low loss too, so whether answers "
        "are better is for the evaluation to say.",
    ),
    Chart(
        "supervision",
        "Supervised rows",
        (
            Panel(
                "share of response rows",
                (Line("rows/root", "root"), Line("rows/child", "child"), Line("rows/none", "none")),
                percent=True,
                top=1.02,
            ),
        ),
        "A row is one predicted response token. It can be a root (both tokenizers have a boundary there), a child "
        "(the row after a root, where a teacher token is completed), both, or neither. So the shares add up to more "
        "than 100% where rows are both.",
        "Steady, and mostly roots. The fewer tokens both vocabularies share, the more children and rows without loss.",
        "Many rows without a loss: see the reasons in the next figure. No children at all: the objective's option "
        "“completion” is “none”, or the teacher's tokens are hardly ever longer than the student's.",
    ),
    Chart(
        "unsupervised",
        "Rows without a loss, by reason",
        (
            Panel(
                "share of response rows",
                (
                    Line("rows/none/interior", "interior"),
                    Line("rows/none/blank", "blank"),
                    Line("rows/none/no_teacher_row", "no teacher row"),
                    Line("rows/none/diverged", "diverged"),
                ),
                percent=True,
            ),
        ),
        "Interior: inside a teacher token, with nothing to complete. Blank: the sampled token is only spaces or tabs "
        "(mask_whitespace_roots). No teacher row: no row of the teacher stands there. Diverged: after the first byte "
        "in which the two token sequences differ. Percentages: share of all rows without a loss.",
        "A small, steady share; interior and blank rows are part of the method.",
        "Diverged above 1%: the tokenizers do not spell the same bytes; look at normalisation, byte fallback and stop "
        "tokens. Blank growing: the student has begun to emit whitespace.",
        parts=True,
    ),
    Chart(
        "completion",
        "Completion",
        (
            Panel("completion probability", (Line("completion_probability", "probability"),), percent=True),
            Panel("supervised teacher mass per child row", (Line("mass", "mass"),), percent=True),
        ),
        "Above: the probability with which the student completes a teacher token that it has begun, averaged over the "
        "teacher's mass. Below: how much of the teacher's probability a child row supervises, on average.",
        "The completion probability rises: the child loss is what pushes it. The mass may drift as the student begins "
        "other tokens than before.",
        "Completion probability flat while the loss falls: raise child_weight. Mass near 0: child rows hardly count "
        "in this pair of tokenizers, and the run is carried by its roots.",
    ),
    Chart(
        "entropy",
        "Entropy",
        (Panel("nats per supervised row", (Line("entropy", "student"),)),),
        "How spread out the student's next-token distribution is, averaged over response tokens. e to the power of it "
        "is about the number of tokens it chooses between.",
        "Falls towards the teacher's entropy and stays above 0.",
        "Near 0: the student repeats itself and learns from few different responses; read samples, lower the learning "
        "rate. Rising: the student is losing what it knew; lower the learning rate.",
    ),
    Chart(
        "length",
        "Response length",
        (
            Panel(
                "tokens per response: mean, and band from shortest to longest",
                (Line("completions/mean_length", "mean"),),
                band=("completions/min_length", "completions/max_length"),
            ),
            Panel(
                "share cut by the length limit", (Line("completions/clipped_ratio", "cut"),), percent=True, top=1.02
            ),
        ),
        "Tokens in the student's responses, and how many of them hit the length limit before a stop token.",
        "Moves towards the teacher's length, then stays. Few responses are cut.",
        "Falling to a few tokens: collapse; stop the run, lower the learning rate, take the last good checkpoint. "
        "Most cut: raise max_completion_length, or check that the student can stop (stop tokens, chat template).",
    ),
    Chart(
        "optimisation",
        "Learning rate and gradient norm",
        (
            Panel("learning rate", (Line("learning_rate", "rate"),), exact=True),
            Panel("gradient norm before clipping", (Line("grad_norm", "norm"),)),
        ),
        "The schedule as it was run, and the size of the gradient.",
        "The norm falls or stays level; single spikes are normal.",
        "Growing norm or spikes together with the loss: lower the learning rate, lengthen the warm-up, "
        "or use more responses per step. Norm 0: nothing is trained.",
    ),
    Chart(
        "time",
        "Time per step",
        (
            Panel(
                "seconds per step",
                (
                    Line("time/rollout", "rollout"),
                    Line("time/align", "align"),
                    Line("time/teacher", "teacher"),
                    Line("time/student", "student"),
                    Line("time/loss", "loss"),
                ),
            ),
        ),
        "Rollout: the student generates. Align: rendering, retokenising and matching rows. Teacher and student: "
        "forward passes. Loss: heads, loss and its gradient. Other: backward pass and optimiser. Measured "
        "by the clock of the first process; on a GPU, work counts for the part that waits for it.",
        "Steady. Rollout usually takes the largest share.",
        "Rollout dominates: larger generation batches, or vLLM. Teacher dominates: serve it, or use lower precision. "
        "Align dominates: check that the tokenizers are fast ones.",
        parts=True,
        whole="step_time",
    ),
)
