"""The progress bar of `escd distill`: the figures of the last log beside the bar instead of lines of dictionaries."""

from __future__ import annotations

from typing import Any

from transformers.trainer_callback import ProgressCallback

_SHOWN = {"loss": "loss", "child": "child", "completions/mean_length": "length", "completions/clipped_ratio": "cut"}


class CompactProgress(ProgressCallback):
    """`transformers.ProgressCallback` with a postfix of loss, child loss, response length and share cut."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Show the figures of a step."""
        if state.is_world_process_zero and self.training_bar is not None and logs and "loss" in logs:
            shown = {short: f"{logs[name]:.3g}" for name, short in _SHOWN.items() if logs.get(name) is not None}
            self.training_bar.set_postfix(shown)


def close_bars(trainer: Any) -> None:
    """Finish the bar of a run that broke off, so that what is printed next stands on a line of its own."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, ProgressCallback) and callback.training_bar is not None:
            callback.training_bar.close()
            callback.training_bar = None
