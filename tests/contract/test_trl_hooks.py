"""The private hooks of `trl.DistillationTrainer` that `ESCDTrainer` stands on. If TRL changes them, this fails."""

import inspect

import pytest
from trl import DistillationTrainer

HOOKS = {
    "_generate_and_score_completions": ["self", "inputs"],
    "_compute_loss": ["self", "unwrapped_student", "inputs", "num_items_in_batch"],
    "_tokenize_prompts": ["self", "prompts"],
    "_generate_single_turn": ["self", "prompt_ids", "images", "multimodal_fields", "has_tool_images"],
    "compute_loss": ["self", "model", "inputs", "return_outputs", "num_items_in_batch"],
    "log": ["self", "logs", "start_time"],
    "create_model_card": ["self", "model_name", "dataset_name", "tags"],
}


@pytest.mark.parametrize(("name", "parameters"), HOOKS.items())
def test_signature(name, parameters):
    assert list(inspect.signature(getattr(DistillationTrainer, name)).parameters) == parameters


def test_the_training_loop_goes_through_epochs():
    assert "self._run_epoch(" in inspect.getsource(DistillationTrainer._inner_training_loop)


def test_what_the_hooks_exchange():
    source = {name: inspect.getsource(getattr(DistillationTrainer, name)) for name in HOOKS}
    for key in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "num_items_in_batch"):
        assert f'"{key}": {key}' in source["_generate_and_score_completions"]
    assert "loss, entropy_sum, num_valid_tokens = self._forward_redirection" in source["compute_loss"]
    assert "/ self.accelerator.num_processes" in source["compute_loss"]
    init = inspect.getsource(DistillationTrainer.__init__)
    for name in (
        "_tokenizer",
        "eos_token_ids",
        "generation_config",
        "generation_kwargs",
        "_forward_redirection",
        "_metrics",
    ):
        assert f"self.{name} = " in init
    assert "if teacher_model is not None:" in init
