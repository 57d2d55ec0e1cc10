"""The embedded pair: problems, grading, shipped tokenizers and models."""

import random
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import escd.lab
from escd.evaluation.graders import grade
from escd.lab import TASKS, Problem, problems
from escd.lab.corpus import response, training_draft
from escd.lab.mistakes import Mistakes
from escd.lab.problems import DRAW
from escd.lab.segmentation import IGNORED, dropout_split, own, piecewise_split, recut
from escd.lab.stories import LARGEST
from evaluation.sandboxed import need_sandbox

transformers = pytest.importorskip("transformers")

PATHS = {"teacher": escd.lab.TEACHER_PATH, "student": escd.lab.STUDENT_PATH}
MEGABYTE = 1e6
FIRST_QUESTION = "Ben has 27 apples. Ben gives away 2. After that he sells 11. How many apples are left?"


@pytest.fixture(scope="module")
def tokenizers():
    return {name: transformers.AutoTokenizer.from_pretrained(path) for name, path in PATHS.items()}


def pieces(tokenizer, text):
    return [tokenizer.decode([i]) for i in tokenizer(text, add_special_tokens=False)["input_ids"]]


# --- problems ---------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_problems_are_deterministic(task):
    assert problems(20, seed=3, task=task) == problems(20, seed=3, task=task)
    assert problems(20, seed=3, task=task) != problems(20, seed=4, task=task)
    assert problems(30, seed=3, task=task)[:20] == problems(20, seed=3, task=task)
    assert {p.task for p in problems(20, seed=3, task=task)} == {task}


def test_problems_of_the_default_task_are_the_arithmetic_stories():
    first = problems(1)[0]
    assert first == problems(1, task="math")[0]
    assert first.question == FIRST_QUESTION


def test_another_process_gets_the_same_problems_and_no_transformers():
    code = (
        "import sys; from escd.lab import TASKS, problems;"
        "print([p for task in TASKS for p in problems(5, 1, 'test', task)]); print('transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str([p for task in TASKS for p in problems(5, 1, "test", task)]), "False"]


def test_splits_share_no_arithmetic():
    def numbers(problem: Problem) -> str:
        return "".join(c for c in problem.solution if not c.isalpha())

    train = problems(3000, seed=0) + problems(3000, seed=5)
    test = problems(400, split="test") + problems(400, seed=9, split="test")
    assert not {numbers(p) for p in train} & {numbers(p) for p in test}


@pytest.mark.parametrize("task", TASKS)
def test_splits_share_no_solution(task):
    def body(problem: Problem) -> str:  # a function may have any name
        return problem.solution.split("\n", 1)[1] if task == "code" else problem.solution

    train = problems(3000, task=task)
    assert not {body(p) for p in train} & {body(p) for p in problems(400, split="test", task=task)}
    rng = random.Random(0)
    assert 0.05 < sum(DRAW[task](rng).is_test for _ in range(2000)) / 2000 < 0.2


def right(response, task, answer, tests):
    """Whether a response of the lab's own generator solves a problem; its functions need no sandbox."""
    if task != "code":
        return grade(task, response, {"answer": answer}).correct
    try:
        exec("\n".join([response, *tests]), {})
    except Exception:
        return False
    return True


@pytest.mark.parametrize("task", TASKS)
def test_solutions_are_right(task):
    for problem in problems(500, task=task) + problems(200, split="test", task=task):
        assert right(problem.solution, task, problem.answer, problem.tests), problem
        assert problem.prompt == [{"role": "user", "content": problem.question}]


def test_lines_of_arithmetic_are_right():
    for problem in problems(300) + problems(300, task="science"):
        lines = [line.rstrip(".") for line in problem.solution.split("\n\n")[1:-1]]
        for left, right in (line.split(" = ") for line in lines if not line[0].isalpha() and line[:2] != "1 "):
            assert eval(left) == pytest.approx(float(right))
            assert problem.task == "science" or 1 <= int(right) <= LARGEST


def test_numbers_of_a_science_answer_come_with_their_unit():
    for problem in problems(300, task="science"):
        value, unit = problem.answer.split(" ")
        assert float(value) > 0
        assert unit[0].isalpha()
        assert problem.solution.endswith(f"Answer: {problem.answer}")


def test_functions_are_asked_for_by_name_and_tested():
    for problem in problems(300, task="code"):
        assert f" {problem.answer}(" in problem.question
        assert problem.solution.startswith(f"def {problem.answer}(")
        assert len(problem.tests) >= 3
        assert all(test.startswith(f"assert {problem.answer}(") for test in problem.tests)


def test_a_problem_is_frozen_and_split_and_task_are_checked():
    with pytest.raises(FrozenInstanceError):
        problems(1)[0].answer = "1"  # type: ignore[misc]
    with pytest.raises(ValueError, match="train"):
        problems(1, split="validation")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="science"):
        problems(1, task="physics")  # type: ignore[arg-type]


def test_dataset_names():
    from escd.training.arguments import DistillArguments
    from escd.training.data import load_prompts

    def prompts(name, n):
        return load_prompts(DistillArguments(dataset_name=name, lab_prompts=n), seed=3)["prompt"]

    each = {task: [p.prompt for p in problems(4, seed=3, task=task)] for task in TASKS}
    for task in TASKS:
        assert prompts(f"lab/{task}", 4) == each[task]
    assert prompts("lab", 7) == [each[task][i] for i in range(3) for task in TASKS][:7]


# --- shipped folders --------------------------------------------------------------------------


def test_size():
    files = [f for path in PATHS.values() for f in Path(path).rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) <= 6 * MEGABYTE


@pytest.mark.parametrize("name", PATHS)
def test_folder_is_complete(name):
    expected = {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "chat_template.jinja",
    }  # fmt: skip
    assert {f.name for f in Path(PATHS[name]).iterdir()} == expected


@pytest.mark.parametrize("name", PATHS)
def test_vocabulary_fits_model_and_holds_all_bytes(name, tokenizers):
    from tokenizers.pre_tokenizers import ByteLevel

    config = transformers.AutoConfig.from_pretrained(PATHS[name])
    vocabulary = tokenizers[name].get_vocab()
    assert len(vocabulary) == config.vocab_size
    assert set(ByteLevel.alphabet()) <= set(vocabulary)
    text = "Zoë öffnet 3 Türen — 数 \t\r\n"
    assert tokenizers[name].decode(tokenizers[name](text)["input_ids"]) == text


@pytest.mark.parametrize("name", PATHS)
def test_stops(name, tokenizers):
    tokenizer = tokenizers[name]
    generation = transformers.GenerationConfig.from_pretrained(PATHS[name])
    assert tokenizer.eos_token_id in generation.eos_token_id
    assert tokenizer.pad_token_id == generation.pad_token_id != tokenizer.eos_token_id


def test_chat_templates(tokenizers):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]
    answered = [*messages, {"role": "assistant", "content": "2"}]

    def render(name, conversation, **options):
        return tokenizers[name].apply_chat_template(conversation, tokenize=False, **options)

    prompt = render("teacher", messages, add_generation_prompt=True)
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert render("teacher", answered) == prompt + "2<|im_end|>\n"
    prompt = render("student", messages, add_generation_prompt=True)
    assert prompt == "<system>Be brief.<user>1 + 1?<assistant>"
    assert render("student", answered) == prompt + "2<end>"


def test_tokenizers_differ_as_real_ones_do(tokenizers):
    teacher, student = tokenizers["teacher"], tokenizers["student"]
    assert pieces(teacher, "apples.\n\n12")[-2:] == [".\n\n", "12"]
    assert pieces(student, "apples.\n\n12")[-4:] == [".", "\n\n", "1", "2"]
    assert pieces(teacher, " = 19") == [" =", " 19"]
    assert pieces(student, " = 19") == [" =", " 1", "9"]
    assert pieces(teacher, " 123") == [" 12", "3"]
    assert pieces(teacher, " stickers") == [" stickers"]
    assert len(pieces(student, " stickers")) > 1
    assert pieces(student, " How many") == [" How many"]
    assert pieces(teacher, " How many") == [" How", " many"]
    code = "def fold_level(x):\n    return x <= 3"
    assert pieces(teacher, code)[-6:] == ["_level", "(x", "):\n    return", " x", " <=", " 3"]
    assert pieces(student, code)[-8:] == ["):", "\n    ", "return", " x", " ", "<", "=", " 3"]


# --- training texts ---------------------------------------------------------------------------


def test_mistakes_are_marked_and_followed_from():
    rng = random.Random(0)
    for _ in range(200):
        story = training_draft("math", rng)
        assert not story.is_test
        text = ""
        for part, sound in response(story, Mistakes(result=0.5), rng):
            if text.endswith("=") and sound:
                assert eval(text.split("\n\n")[-1].rstrip(" =")) == int(part)
            elif text.endswith("="):
                assert eval(text.split("\n\n")[-1].rstrip(" =")) != int(part)
            text += part
        results = [line.split(" = ")[1].rstrip(".") for line in text.split("\n\n")[1:-1]]
        starts = [line.split()[0] for line in text.split("\n\n")[2:-1]]
        assert starts == results[:-1]
        assert text.endswith(f"Answer: {results[-1]}")


@pytest.mark.parametrize("task", ["code", "science"])
def test_marked_mistakes_are_mistakes(task):
    """Without one a response is right; with one nearly never, and then by luck of the numbers."""
    rng, lucky = random.Random(0), 0
    for _ in range(300):
        draft = training_draft(task, rng)
        assert not draft.is_test
        pieces = response(draft, Mistakes(result=0.2, copy=0.1), rng)
        solved = right("".join(text for text, _ in pieces), task, draft.answer, draft.tests)
        sound = all(sound for _, sound in pieces)
        assert solved or not sound
        lucky += solved and not sound
    assert lucky < 10


def test_other_segmentations_keep_the_text_and_teach_the_own_one(tokenizers):
    backend, rng = tokenizers["teacher"].backend_tokenizer, random.Random(0)
    whole = dropout_split(backend, 0.0, rng)
    halves = piecewise_split(backend, tokenizers["student"].backend_tokenizer)
    for _ in range(20):
        pieces = response(training_draft(rng.choice(TASKS), rng), Mistakes(result=0.2, word=0.1), rng)
        text = "".join(part for part, _ in pieces)
        assert recut(backend, pieces, whole) == own(backend, pieces, learn_mistakes=False)
        for split in (dropout_split(backend, 0.5, rng), halves):
            assert tokenizers["teacher"].decode(recut(backend, pieces, split).ids) == text
    encoded = recut(backend, [(" = 19.\n\nAnswer", True)], halves)
    shown = [backend.decode([i]) for i in encoded.ids]
    learned = [backend.decode([i]) for i in encoded.labels if i != IGNORED]
    assert shown == [" =", " 1", "9", ".", "\n\n", "Answer"]
    assert learned == [" =", "9", "\n\n", "Answer"]


# --- models -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models():
    load = transformers.AutoModelForCausalLM.from_pretrained
    return {name: load(path).float().eval() for name, path in PATHS.items()}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("name", "samples", "low", "high"), [("teacher", 1, 0.8, 1.0), ("student", 4, 0.1, 0.6)])
def test_accuracy(name, samples, low, high, task, tokenizers, models, tmp_path):
    from escd.evaluation.run import evaluate
    from escd.evaluation.tasks import load_task

    if task == "code":
        need_sandbox()
    held_out = load_task(f"lab/{task}", limit=40, seed=2)
    found = evaluate(
        models[name], tokenizers[name], held_out, tmp_path / "rows.jsonl", samples=samples,
        temperature=float(samples > 1),
    )  # fmt: skip
    assert low <= found.average.accuracy <= high


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([".\n\n", "12", " +", " 7", " =", " 19", "."], "\n\n"),
        ([".\n\n", "12", " +", " 7", " =", " 1"], "9"),
        ([".\n\n", "1", "2", " +", " 7", " ="], " 19"),
        ([".\n\n", "12", " +", " 7", " =", " 15", ".\n\n", "15", " -", " 5", " ="], " 10"),
        ([".\n\n", "12", " +", " 7", " =", " 15", ".\n\n"], "15"),
        ([".\n\n", "12", " +", " 7", " =", " 19", ".\n\n", "19", " -", " 5", " =", " 14", ".\n\n", "Ans"], "wer"),
    ],
)
def test_teacher_copes_with_other_segmentations_and_mistakes(written, expected, tokenizers, models):
    """A teacher that has only seen its own segmentation answers noise after a lone full stop."""
    import torch

    tokenizer = tokenizers["teacher"]
    question = "Tom has 12 apples. He finds 7 more. Then Tom gives away 5. How many apples are left?"
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
    )
    texts = [prompt, "Tom starts with 12 apples", *written]
    ids = [token for text in texts for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
    with torch.inference_mode():
        q = models["teacher"](torch.tensor([ids])).logits[0, -1].softmax(-1)
    assert q[tokenizer(expected)["input_ids"][0]] > 0.5
