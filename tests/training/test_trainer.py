"""`ESCDTrainer` on a tiny pair: what a step logs, resume to the bit, errors that name model and row."""

import json

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

import escd
from escd.metrics_file import read_metrics

pytestmark = pytest.mark.slow

PROMPTS = Dataset.from_dict({"prompt": [[{"role": "user", "content": f"the cat {i}"}] for i in range(40)]})


def config(output, **kwargs):
    base = {
        "max_steps": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "max_completion_length": 12, "logging_steps": 1, "report_to": "none", "gradient_checkpointing": False,
        "learning_rate": 1e-2, "save_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip
    return escd.ESCDConfig(output_dir=str(output), **{**base, **kwargs})


def trainer(pair_dir, output, model=None, teacher=None, data=PROMPTS, **kwargs):
    options = {
        k: kwargs.pop(k) for k in ("peft_config", "processing_class", "teacher_processing_class") if k in kwargs
    }
    return escd.ESCDTrainer(
        model=str(pair_dir / "student") if model is None else model,
        teacher_model=str(pair_dir / "teacher") if teacher is None else teacher,
        args=config(output, **kwargs), train_dataset=data, **options,
    )  # fmt: skip


def test_what_a_step_logs(pair_dir, tmp_path):
    run = trainer(pair_dir, tmp_path)
    run.train()
    row = read_metrics(tmp_path / "metrics.jsonl")[0]
    for key in (
        "loss", "root", "child", "rows/root", "rows/child", "rows/none", "rows/none/interior", "rows/none/blank",
        "rows/none/no_teacher_row", "rows/none/diverged", "mass", "completion_probability", "entropy", "bytes_differ",
        "completions/mean_length", "completions/clipped_ratio", "learning_rate", "grad_norm",
        "time/rollout", "time/teacher", "time/align", "time/student", "time/loss",
    ):  # fmt: skip
        assert isinstance(row[key], (int, float)), key
    assert row["loss"] == pytest.approx(row["root"] + row["child"], rel=1e-5)
    assert row["rows/none"] == pytest.approx(sum(v for k, v in row.items() if k.startswith("rows/none/")))
    run.save_model()
    student = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert student.generation_config.eos_token_id == list(run.student_vocab.stop_ids)
    assert len(AutoTokenizer.from_pretrained(tmp_path)) == student.config.vocab_size


def test_model_card_names_student_teacher_objective_and_paper(pair_dir, tmp_path):
    run = trainer(pair_dir, tmp_path)
    run.create_model_card("my-student", dataset_name="prompts.jsonl")
    text = (tmp_path / "README.md").read_text()
    for word in (
        str(pair_dir / "student"),
        str(pair_dir / "teacher"),
        "`escd`",
        "2609.34738",
        "prompts.jsonl",
        "Event-Set",
    ):
        assert word in text


def test_resume_is_bit_identical(pair_dir, tmp_path):
    whole = trainer(pair_dir, tmp_path / "whole", max_steps=4)
    whole.train()
    # Killed after step 3: checkpoint at 2, metrics of step 3 already written.
    stopped = trainer(pair_dir, tmp_path / "cut", max_steps=4, save_strategy="steps", save_steps=2)
    stopped.add_callback(StopAt(3))
    stopped.train()
    assert [r["step"] for r in read_metrics(tmp_path / "cut" / "metrics.jsonl") if "loss" in r] == [1, 2, 3]
    resumed = trainer(pair_dir, tmp_path / "cut", max_steps=4, save_strategy="steps", save_steps=2)
    resumed.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-2"))
    kept = ("loss", "root", "child", "entropy", "completions/mean_length", "num_tokens", "learning_rate")
    rows = [[r[k] for k in kept] for r in read_metrics(tmp_path / "whole" / "metrics.jsonl") if "loss" in r]
    again = [[r[k] for k in kept] for r in read_metrics(tmp_path / "cut" / "metrics.jsonl") if "loss" in r]
    assert again == rows
    a, b = whole.model.state_dict(), resumed.model.state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


def test_resume_from_the_last_step_trains_nothing_more(pair_dir, tmp_path):
    options = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "lr_scheduler_type": "constant"}
    whole = trainer(pair_dir, tmp_path, **options)
    whole.train()
    again = trainer(pair_dir, tmp_path, **options)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.global_step == 2
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl") if "loss" in row] == [1, 2]
    a, b = whole.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_lora_trains_only_its_adapters(pair_dir, tmp_path):
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    run = trainer(pair_dir, tmp_path, peft_config=lora)
    before = {n: p.detach().clone() for n, p in run.model.named_parameters()}
    run.train()
    moved = {n for n, p in run.model.named_parameters() if not torch.equal(p, before[n])}
    assert moved
    assert all("lora_" in n for n in moved)
    run.save_model()
    assert json.loads((tmp_path / "adapter_config.json").read_text())["r"] == 4


def test_plain_text_prompts_and_given_objects(pair_dir, tmp_path):
    tokenizers = {who: AutoTokenizer.from_pretrained(pair_dir / who) for who in ("student", "teacher")}
    run = trainer(
        pair_dir, tmp_path, AutoModelForCausalLM.from_pretrained(pair_dir / "student"),
        AutoModelForCausalLM.from_pretrained(pair_dir / "teacher"),
        Dataset.from_dict({"prompt": [f"the cat {i}" for i in range(16)]}),
        processing_class=tokenizers["student"], teacher_processing_class=tokenizers["teacher"],
    )  # fmt: skip
    run.train()
    assert read_metrics(tmp_path / "metrics.jsonl")[0]["rows/root"] > 0.5


def test_same_tokenizer_on_both_sides_is_plain_kl(pair_dir, tmp_path):
    run = trainer(pair_dir, tmp_path, teacher=str(pair_dir / "student"), max_steps=1, mask_whitespace_roots=False)
    # As the tokenizer itself spells it: on another segmentation the two models would see different contexts.
    canonical = run._tokenizer("the cat sat on the mat")["input_ids"]
    run._generate_single_turn = lambda ids, *a, **k: [[*canonical, run.student_vocab.preferred_stop]] * len(ids)
    run.train()
    row = read_metrics(tmp_path / "metrics.jsonl")[0]
    assert (row["rows/root"], row["rows/child"], row["child"]) == (1, 0, 0)
    assert row["loss"] == pytest.approx(0, abs=1e-5)


def test_evaluation_dataset(pair_dir, tmp_path):
    run = escd.ESCDTrainer(
        model=str(pair_dir / "student"), teacher_model=str(pair_dir / "teacher"), args=config(tmp_path),
        train_dataset=PROMPTS, eval_dataset=PROMPTS.select(range(6)),
    )  # fmt: skip
    figures = run.evaluate()
    assert figures["eval_loss"] > 0
    assert figures["eval_root"] > 0


def test_eos_as_pad_still_trains_the_stop_row(pair_dir, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    tokenizer.pad_token = tokenizer.eos_token
    run = trainer(pair_dir, tmp_path, processing_class=tokenizer)
    stop = run.student_vocab.preferred_stop
    run._generate_single_turn = lambda ids, *a, **k: [[run.student_vocab.id_of[b"c"], stop]] * len(ids)
    batch = run._generate_and_score_completions([PROMPTS[0], PROMPTS[1]])
    assert [r.student.tolist() for r in batch["rows"]] == [[0, 1], [0, 1]]
    assert int(batch["num_items_in_batch"]) == 4


# -- errors -----------------------------------------------------------------------------------------------------


def poisoned(pair_dir, who):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / who)
    with torch.no_grad():
        model.model.norm.weight[0] = torch.nan
    return model


def test_nan_teacher_names_model_and_row(pair_dir, tmp_path):
    with pytest.raises(
        escd.TeacherError, match=r"teacher .*NaN or infinite at response 0 of this batch, row 0 \(step 1\)"
    ):
        trainer(pair_dir, tmp_path, teacher=poisoned(pair_dir, "teacher")).train()


def test_nan_student_names_model_and_row(pair_dir, tmp_path):
    with pytest.raises(
        escd.StudentError, match=r"student .*NaN or infinite at prompt 0 of this step, row 0 \(step 1\)"
    ):
        trainer(pair_dir, tmp_path, model=poisoned(pair_dir, "student")).train()


def test_teacher_head_smaller_than_its_tokenizer(pair_dir, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "teacher")
    model.resize_token_embeddings(100)
    with pytest.raises(escd.TeacherError, match="lm_head has 100 rows but its tokenizer has"):
        trainer(pair_dir, tmp_path, teacher=model)


def test_padded_heads_are_fine(pair_dir, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "teacher")
    model.resize_token_embeddings(512)
    trainer(pair_dir, tmp_path, teacher=model, max_steps=1).train()


def test_a_step_without_a_supervised_row_is_an_error(pair_dir, tmp_path):
    run = trainer(pair_dir, tmp_path)
    blank = run.student_vocab.id_of[b"\t"]
    run._generate_single_turn = lambda ids, *a, **k: [[blank]] * len(ids)
    with pytest.raises(escd.AlignError, match="not one of 8 response rows is supervised"):
        run.train()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"teacher": "/nowhere/model"}, "there is no such folder"),
        ({"model": "/nowhere/model"}, "there is no such folder"),
        ({"objective": "escdd"}, "did you mean 'escd'"),
        ({"completion": "sets"}, "did you mean 'set'"),
        ({"child_weight": -1.0}, "at least 0"),
    ],
)
def test_what_cannot_be(pair_dir, tmp_path, change, error):
    with pytest.raises(escd.ConfigError, match=error):
        trainer(pair_dir, tmp_path, **change)


def test_student_without_a_tokenizer(pair_dir, tmp_path):
    AutoModelForCausalLM.from_pretrained(pair_dir / "student").save_pretrained(tmp_path / "bare")
    with pytest.raises(escd.ConfigError, match="has no tokenizer"):
        trainer(pair_dir, tmp_path / "out", model=str(tmp_path / "bare"))


def test_weights_saved_by_a_checkpoint_are_whole(pair_dir, tmp_path):
    run = trainer(pair_dir, tmp_path, save_strategy="steps", save_steps=1)
    run.train()
    saved = load_file(tmp_path / "checkpoint-2" / "model.safetensors")
    assert all(torch.equal(saved[k], v) for k, v in run.model.state_dict().items() if k in saved)


def test_rows_of_a_padded_student_head_are_never_sampled(pair_dir, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "student")
    model.resize_token_embeddings(2000)
    run = trainer(pair_dir, tmp_path, model=model, max_steps=1)
    run.train()
    batch = run._generate_and_score_completions([PROMPTS[0], PROMPTS[1]])
    assert int(batch["completion_ids"].max()) < len(run.student_vocab)


def test_a_head_that_is_not_all_of_the_logits_is_refused(pair_dir, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "teacher")
    plain = model.forward

    def forward(*args, **kwargs):
        out = plain(*args, **kwargs)
        out.logits = out.logits * 2
        return out

    model.forward = forward
    with pytest.raises(escd.TeacherError, match="after the lm_head"):
        trainer(pair_dir, tmp_path, teacher=model)


def test_nan_in_the_head_alone_names_the_row(pair_dir, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "student")
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    with pytest.raises(escd.StudentError, match="row"):
        trainer(pair_dir, tmp_path, model=model).train()
