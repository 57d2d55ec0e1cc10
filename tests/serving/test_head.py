"""The lm_head alone, out of checkpoints of every kind, equals the head of the loaded model."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, CohereConfig, Gemma2Config, GPT2Config, LlamaConfig, PhiConfig

from escd import ConfigError
from escd.objectives.tiles import logits_of
from escd.teachers.local import head_of
from escd.teachers.served.head import read_config, read_head

SIZES = {
    "vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    "num_key_value_heads": 2, "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
CONFIGS = {
    "untied": LlamaConfig(**SIZES, tie_word_embeddings=False),
    "tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "scaled": CohereConfig(**SIZES, logit_scale=0.25),
    "capped": Gemma2Config(**SIZES, head_dim=8, final_logit_softcapping=3.0),
    "biased": PhiConfig(**SIZES),
    "old names": GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1),
}


def saved(folder, config, **options):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    if (bias := getattr(model.get_output_embeddings(), "bias", None)) is not None:
        torch.nn.init.normal_(bias)
    model.save_pretrained(folder, **options)
    return model


def head(folder):
    return read_head(str(folder), read_config(str(folder)))


@pytest.mark.parametrize("shards", ["5GB", "3KB"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_it_equals_the_head_of_the_model(kind, shards, tmp_path):
    model = saved(tmp_path, CONFIGS[kind], max_shard_size=shards)
    assert (tmp_path / "model.safetensors.index.json").exists() == (shards == "3KB")
    found, expected, hidden = head(tmp_path), head_of(model), torch.randn(5, 16)
    assert (found.scale, found.softcap) == (expected.scale, expected.softcap)
    assert torch.equal(logits_of(found, hidden), logits_of(expected, hidden))


def test_only_its_shard_is_read(tmp_path):
    saved(tmp_path, CONFIGS["untied"], max_shard_size="3KB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    for name in set(index.values()) - {index["lm_head.weight"]}:
        (tmp_path / name).unlink()
    assert head(tmp_path).weight.shape == (64, 16)


def test_names_without_the_prefix_of_the_base_model(tmp_path):
    model = saved(tmp_path, CONFIGS["old names"])
    path = tmp_path / "model.safetensors"
    save_file({k.removeprefix("transformer."): v for k, v in load_file(path).items()}, path)
    assert torch.equal(head(tmp_path).weight, model.lm_head.weight)


def changed(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def quantised(tensors):
    tensors["lm_head.weight"] = tensors["lm_head.weight"].to(torch.float8_e4m3fn)


def shorter(tensors):
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:50].clone()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (quantised, "stored as float8_e4m3fn; name a checkpoint of the same model that is not quantised"),
        (shorter, r"lm_head has shape \[50, 16\], its config.json says \[64, 16\]"),
        (lambda tensors: tensors.pop("lm_head.weight"), "has no tensor lm_head.weight"),
    ],
)
def test_checkpoints_that_will_not_do(change, told, tmp_path):
    saved(tmp_path, CONFIGS["untied"])
    changed(tmp_path, change)
    with pytest.raises(ConfigError, match=told):
        head(tmp_path)


def test_files_that_will_not_do(tmp_path):
    saved(tmp_path, CONFIGS["untied"])
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ConfigError, match=r"model.safetensors is damaged"):
        head(tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match=r"has no model.safetensors, .* convert it with save_pretrained"):
        head(tmp_path)


def test_a_hub_id_that_cannot_be_reached():
    with pytest.raises(ConfigError, match="if the hub cannot be reached from here, fetch it first with 'hf download"):
        read_head("escd-tests/none", CONFIGS["untied"])
