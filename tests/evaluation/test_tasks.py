"""Task files: every built-in one on rows of its dataset's schema, and mistakes in one line."""

import base64
import json
import pickle
import time
import zlib

import pytest
import yaml
from sandboxed import need_sandbox

from escd import lab
from escd.errors import ConfigError
from escd.evaluation.graders import GRADERS, grade
from escd.evaluation.tasks import load_task, load_tasks, task_names
from escd.evaluation.tasks.loading import _FOLDER
from escd.evaluation.tasks.templates import unpack

PRIVATE = base64.b64encode(zlib.compress(pickle.dumps('[{"input": "2\\n", "output": "4\\n", "testtype": "stdin"}]')))
LCB = {
    "question_content": "Print twice the number.", "question_id": "abc", "starter_code": "", "platform": "atcoder",
    "public_test_cases": '[{"input": "1\\n", "output": "2\\n", "testtype": "stdin"}]',
    "private_test_cases": PRIVATE.decode(),
}  # fmt: skip
GPQA = {f"Incorrect Answer {i}": f"wrong {i}" for i in (1, 2, 3)}
AIME = [{"id": str(i), "problem": f"Find {i}.", "answer": str(i)} for i in (1, 2)]
# Two rows in the schema of the set, and for each a right response.
SETS = {
    "gsm8k": (
        [{"question": "2 + 3?", "answer": "It is 5.\n#### 5"}, {"question": "1000 + 1?", "answer": "#### 1,001"}],
        ["Answer: 5", "Answer: 1001"],
    ),
    "math500": (
        [{"problem": f"Half of {i}?", "solution": "", "answer": f"\\frac{{{i}}}{{2}}", "subject": "Algebra",
          "level": 1, "unique_id": f"test/{i}.json"} for i in (1, 3)],
        ["\\boxed{0.5}", "\\boxed{3/2}"],
    ),
    "aime24": ([{**row, "solution": "", "url": "", "year": "2024"} for row in AIME], ["\\boxed{1}", "\\boxed{002}"]),
    "aime25": (AIME, ["\\boxed{1}", "\\boxed{2}"]),
    "humaneval": (
        [{"task_id": f"HumanEval/{i}", "prompt": f'def f{i}(x):\n    """Add {i}."""\n',
          "canonical_solution": f"    return x + {i}\n", "entry_point": f"f{i}",
          "test": f"def check(candidate):\n    assert candidate(1) == {1 + i}\n"} for i in (0, 1)],
        ["    return x\n", "```python\ndef f1(x):\n    return x + 1\n```"],
    ),
    "mbpp": (
        [{"task_id": i, "text": f"Write a function f that adds {i}.", "code": f"def f(x): return x + {i}",
          "test_list": [f"assert f(N) == {1 + i}"], "test_setup_code": "N = 1", "challenge_test_list": []}
         for i in (11, 12)],
        ["```python\ndef f(x): return x + 11\n```", "def f(x): return x + 12"],
    ),
    "livecodebench": ([LCB, {**LCB, "question_id": "def"}], ["```python\nprint(2 * int(input()))\n```"] * 2),
    "gpqa_diamond": (
        [{"Question": f"What {i}?\n", "Correct Answer": "right", **GPQA, "Record ID": f"rec{i}"} for i in (1, 2)],
        ["Answer: right", "\\boxed{right}"],
    ),
    "arc_challenge": (
        [{"id": i, "question": i, "choices": {"text": ["ice", "fire"], "label": labels}, "answerKey": key}
         for i, labels, key in (("Hot?", ["A", "B"], "B"), ("Cold?", ["1", "2"], "1"))],
        ["Answer: B", "Answer: (A)"],
    ),
    "sciq": (
        [{"question": f"What {i}?", "correct_answer": "right", "distractor1": "a", "distractor2": "b",
          "distractor3": "c", "support": ""} for i in (1, 2)],
        ["Answer: right", "Answer: right"],
    ),
}  # fmt: skip


def built_in():
    return [name for name in task_names() if not name.startswith("lab/")]


def needs(name):
    """Skip what cannot be graded here."""
    kind = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())["grader"]
    if kind in ("code", "stdio"):
        need_sandbox()
    for module in ("math_verify", "pint"):
        if GRADERS[kind].package == module:
            pytest.importorskip(module)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_built_in_task_is_tested():
    assert sorted(SETS) == built_in()


@pytest.mark.parametrize("name", sorted(SETS))
def test_built_in_task(name, tmp_path):
    needs(name)
    rows, responses = SETS[name]
    task = load_task(name, dataset_path=str(write(tmp_path / "rows.jsonl", rows)))
    assert (task.name, len(task.questions)) == (name, 2)
    assert task.description
    for question, response in zip(task.questions, responses, strict=True):
        assert [m["role"] for m in question.prompt] == ["user"]
        assert question.text == question.text.strip()
        assert "{{" not in question.text
        assert grade(task.grader, response, question.record).reason == "right"
        assert not grade(task.grader, "I do not know, 77777", question.record).correct
    other = load_task(name, dataset_path=str(write(tmp_path / "other.jsonl", rows[::-1])))
    assert other.content != task.content
    assert load_task(name, dataset_path=str(write(tmp_path / "same.jsonl", rows))).content == task.content


def test_the_files_name_the_datasets_of_the_hub():
    found = {name: yaml.safe_load((_FOLDER / f"{name}.yaml").read_text()) for name in built_in()}
    ids = {name: (f["dataset_name"], f.get("dataset_config"), f["split"]) for name, f in found.items()}
    assert ids == {
        "gsm8k": ("openai/gsm8k", "main", "test"),
        "math500": ("HuggingFaceH4/MATH-500", None, "test"),
        "aime24": ("HuggingFaceH4/aime_2024", None, "train"),
        "aime25": ("math-ai/aime25", None, "test"),
        "humaneval": ("openai/openai_humaneval", None, "test"),
        "mbpp": ("google-research-datasets/mbpp", "full", "test"),
        "livecodebench": ("lighteval/code_generation_lite", "v6", "test"),
        "gpqa_diamond": ("Idavidrein/gpqa", "gpqa_diamond", "train"),
        "arc_challenge": ("allenai/ai2_arc", "ARC-Challenge", "test"),
        "sciq": ("allenai/sciq", None, "test"),
    }


def test_choices_are_shuffled_by_the_seed(tmp_path):
    row = SETS["sciq"][0][0]
    path = str(write(tmp_path / "rows.jsonl", [{**row, "question": f"What {i}?"} for i in range(40)]))
    letters = [[q.record["answer"] for q in load_task("sciq", dataset_path=path, seed=s).questions] for s in (0, 0, 1)]
    assert letters[0] == letters[1] != letters[2]
    assert set(letters[0]) == set("ABCD")
    for question in load_task("sciq", dataset_path=path).questions:
        place = "ABCD".index(question.record["answer"])
        assert question.record["choices"][place] == "right"
        assert f"{question.record['answer']}) right" in question.text


def test_problems_with_starter_code_are_left_out(tmp_path):
    needs("livecodebench")
    rows = [{**LCB, "starter_code": "class Solution:"}, LCB]
    task = load_task("livecodebench", dataset_path=str(write(tmp_path / "rows.jsonl", rows)))
    assert task.questions[0].record["cases"] == [("1\n", "2\n"), ("2\n", "4\n")]
    assert len(task.questions) == 1


def test_a_packed_test_that_is_a_program_is_refused():
    class Evil:
        def __reduce__(self):
            return print, ("run",)

    packed = base64.b64encode(zlib.compress(pickle.dumps(Evil()))).decode()
    for text in (packed, "nonsense", "{", base64.b64encode(b"x").decode()):
        with pytest.raises(ValueError, match="neither JSON nor packed JSON"):
            unpack(text)


def test_limit_and_lab():
    pytest.importorskip("math_verify")
    task = load_task("lab/math", limit=3, seed=1)
    assert len(task.questions) == 3
    assert task.content != load_task("lab/math", limit=3, seed=2).content
    assert load_tasks(["lab", "lab/math"], limit=2)[0].name == "lab/math"
    with pytest.raises(ConfigError, match="limit=0"):
        load_task("lab/math", limit=0)


@pytest.mark.parametrize("name", lab.TASKS)
def test_the_lab_judges_its_own_solutions_right(name):
    if name == "code":
        need_sandbox()
    task = load_task(f"lab/{name}", limit=12)
    problems = lab.problems(12, seed=0, split="test", task=name)
    assert [q.text for q in task.questions] == [p.question for p in problems]
    for number, question in enumerate(task.questions):
        assert grade(task.grader, problems[number].solution, question.record).reason == "right"
        other = problems[number - 1]
        if other.answer != question.answer:
            assert not grade(task.grader, other.solution, question.record).correct


TASK = {
    "dataset_name": "rows.jsonl", "grader": "choice", "prompt": "{{ question }}", "answer": "answer", "id": "name",
}  # fmt: skip
ROWS = [
    {"question": "A or B?", "answer": "A", "name": "first"},
    {"question": "B or C?", "answer": "C", "name": "last"},
]


def test_a_task_of_ones_own(tmp_path):
    write(tmp_path / "rows.jsonl", ROWS)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**TASK, "system_prompt": "Be brief.", "max_new_tokens": 7}))
    task = load_task(str(path))
    assert (task.name, task.max_new_tokens) == ("mine", 7)
    assert task.questions[1].id == "last"
    assert task.questions[0].prompt == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "A or B?"},
    ]  # fmt: skip
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"},
                {"role": "user", "content": "{{ question }}"}]  # fmt: skip
    path.write_text(yaml.safe_dump({**TASK, "prompt": messages, "where": "answer == 'C'"}))
    (question,) = load_task(str(path)).questions
    assert [m["content"] for m in question.prompt] == ["Hello", "Yes?", "B or C?"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grader": None}, "'grader' is missing"),
        ({"prompt": None}, "'prompt' is missing"),
        ({"dataset_name": None}, "'dataset_name' is missing"),
        ({"answer": None}, "'answer' is missing"),
        ({"graders": "choice"}, "unknown key 'graders'; did you mean 'grader'"),
        ({"grader": "choices"}, "unknown grader 'choices'; did you mean 'choice'"),
        ({"tests": "question"}, "the grader 'choice' makes no use of 'tests'"),
        ({"grader": "code", "answer": "answer"}, "'tests' is missing"),
        ({"split": 3}, "split must be text"),
        ({"max_new_tokens": 0}, "max_new_tokens must be a whole number of at least 1"),
        ({"prompt": [{"role": "user"}]}, "role and content"),
        ({"prompt": "{{ question"}, "prompt: "),
        ({"answer": "answer +"}, "answer: "),
        ({"prompt": "{{ problem }}"}, "no column 'problem'; its columns are question, answer, name"),
        ({"answer": "row['Right Answer']"}, "no column 'Right Answer'"),
        ({"answer": "answer.text"}, "answer: fails on row 0"),
        ({"answer": "1 / 0"}, "answer: fails on row 0: division by zero"),
        ({"answer": "''"}, "answer: row 0 has none"),
        ({"id": "'same'"}, "id: 'same' names more than one problem"),
        ({"where": "false"}, "has no problem"),
        ({"correct_choice": "answer"}, "'incorrect_choices' is missing"),
        ({"correct_choice": "answer", "incorrect_choices": "[]"}, "or choices and answer"),
        ({"choices": "['x', 'y']", "answer": "'C'"}, "answer is 'C', not the letter of one of 2 choices"),
        ({"choices": "question"}, "choices must be a list of texts"),
        ({"grader": "math", "choices": "['x']"}, "choices is for the grader 'choice', not 'math'"),
        ({"dataset_name": "none.jsonl"}, "there is no such file"),
        ({"dataset_name": "empty.jsonl"}, "is empty"),
        ({"dataset_name": "broken.jsonl"}, "cannot be loaded"),
        ({"answer": "question.__class__.__mro__"}, "unsafe"),
    ],
)
def test_mistakes_in_a_task_file(change, says, tmp_path):
    write(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "broken.jsonl").write_text("{not json\n")
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in {**TASK, **change}.items() if v is not None}))
    with pytest.raises(ConfigError) as caught:
        load_task(str(path))
    assert says in str(caught.value)
    assert "mine" in str(caught.value)
    assert "\n" not in str(caught.value)


def load_own(folder, rows, **change):
    """A task of these rows; keys set to None are left out."""
    write(folder / "rows.jsonl", rows)
    path = folder / "mine.yaml"
    task = {"dataset_name": "rows.jsonl", "grader": "math", "prompt": "{{ q }}", "answer": "a", **change}
    path.write_text(yaml.safe_dump({k: v for k, v in task.items() if v is not None}, allow_unicode=True))
    return load_task(str(path))


CODE = {"grader": "code", "answer": None, "tests": "a"}
CHOICE = {"grader": "choice"}
SCIENCE = {"grader": "science"}


@pytest.mark.parametrize(
    ("change", "value", "says"),
    [
        # columns of the wrong type
        (CODE, 5, "tests must be a program or a list of assert lines, not 5"),
        (CODE, [1, 2], "tests must be a program or a list"), (CODE, {"a": 1}, "tests must be a program or a list"),
        ({**CODE, "prefix": "5"}, "assert f(1)", "prefix must be text, not 5"),
        ({**CODE, "entry_point": "5"}, "assert f(1)", "entry_point must be text, not 5"),
        ({**CODE, "entry_point": "'a b'"}, "assert f(1)", "entry_point must be the name of a function"),
        # tests that can test nothing
        (CODE, "assert f(", "the tests are not Python"), (CODE, "assert 1", "the tests use no name of the program"),
        (CODE, "def check(f): pass", "name the function to check as entry point"),
        (CODE, "import numpy\nassert f(1)", "the tests import numpy, which is not of Python's standard library"),
        ({"grader": "stdio", "answer": None, "cases": "a"}, "[]", "cases: there is none"),
        ({"grader": "stdio", "answer": None, "cases": "a"}, "x", "cases must be pairs of input and output, not 'x'"),
        *[({**SCIENCE, "relative_tolerance": wrong}, "1 m", "relative_tolerance must be a finite number of at least 0")
          for wrong in ("'x'", "-1", "[1]", "true", "'inf'", "q")],
        # references that nothing can be compared with
        *[({}, wrong, "which no response can be compared with") for wrong in (" ", "nan", float("nan"), float("inf"))],
        ({}, "(", "which is no mathematics"), ({}, 2**70, "loses its digits in JSON; write it as text"),
        (CHOICE, 2, "answer is 2, which is no letter; give choices, or the letter of one"),
        (CHOICE, "sound", "answer is 'sound', which is no letter"),
        ({**CHOICE, "choices": "['x', none]"}, "A", "choice 2 of 2 is null"),
        (SCIENCE, "a lot", "answer is 'a lot', which is not one value and unit"),
        (SCIENCE, "5 m or 6 m", "not one value and unit"),
        # results of expressions that are no data
        ({"answer": "a.upper"}, "x", "answer is no data, but <built-in method upper"),
        ({"answer": "range"}, "x", "answer is no data, but <function"),
        ({"answer": "[a|list|batch(2)]"}, "x", "answer is no data, but [<generator"),
        ({"id": "a.upper"}, "x", "id must be a text or a whole number"), ({"id": "none"}, "x", "id must be a text"),
        # prompts
        ({"prompt": "{{ none }}"}, "1", "a value in the text is null"),
        ({"prompt": "{{ a[1:] }}"}, "1", "the prompt is empty"),
        ({"prompt": "{{ 'x' * 10**9 }}"}, "1", "* gives more than 1,000,000 characters"),
        ({"prompt": "{{ 10**(10**9) }}"}, "1", "** gives more than 1,000,000"),
        ({"max_new_tokens": True}, "1", "max_new_tokens must be a whole number"),
    ],
)  # fmt: skip
def test_mistakes_in_a_row(change, value, says, tmp_path):
    good = {"code": "assert f(1)", "stdio": [["1", "1"]], "choice": "A", "science": "1 m"}.get(
        change.get("grader"), "1"
    )
    rows = [{"q": "?", "a": good}, {"q": "?", "a": value}] if type(good) is type(value) else [{"q": "?", "a": value}]
    start = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        load_own(tmp_path, rows, **change)
    assert says in str(caught.value)
    assert "mine.yaml" in str(caught.value)
    if "max_new" not in says:
        assert "row " in str(caught.value)
    if change.keys() <= {"grader", "tests", "cases", "answer"} and "answer" not in change:
        assert f"row {len(rows) - 1}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 10


def test_a_null_in_the_prompt_names_its_row(tmp_path):
    with pytest.raises(ConfigError, match="prompt: fails on row 1: a value in the text is null"):
        load_own(tmp_path, [{"q": "?", "a": "1"}, {"q": None, "a": "1"}])
    assert load_own(tmp_path, [{"q": None, "a": "1"}], prompt="{{ q or 'Well?' }}").questions[0].text == "Well?"


def test_references_that_are_fine(tmp_path):
    for change, value in (
        ({}, "\\emptyset"), ({}, 7), ({}, 0.5), ({}, 2**62), (CHOICE, "(c)"), (CODE, ["assert f(1)"]),
        ({**SCIENCE, "relative_tolerance": "0"}, "1 h 30 min"), (CODE, "def test_a():\n    assert f(1)"),
        ({**CHOICE, "choices": "['x', 'y']"}, "B"),
    ):  # fmt: skip
        assert len(load_own(tmp_path, [{"q": "?", "a": value}], **change).questions) == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("latin.jsonl", '{"q": "\u00e9", "a": "1"}\n'.encode("latin-1"), "is not UTF-8 (line 1"),
        ("latin.csv", "q,a\n\u00e9,1\n".encode("latin-1"), "is not UTF-8 (line 2"),
        ("blank.jsonl", b"\n\n", "has no rows"),
        ("header.csv", b"q,a\n", "has no rows"),
        ("folder.d", None, "is no file"),
        (".", None, "is no file"),
        ("", None, "is no file"),
    ],
)
def test_files_that_cannot_be_read(name, content, says, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    elif name.endswith(".d"):
        write(tmp_path / "other.jsonl", ROWS)
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("x")
    with pytest.raises(ConfigError) as caught:
        load_own(tmp_path, ROWS, dataset_name=name, answer="a")
    assert says in str(caught.value)
    assert "task 'mine" in str(caught.value) or "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    path = str(tmp_path / name) if name else ""
    with pytest.raises(ConfigError) as caught:
        load_task("gsm8k", dataset_path=path)
    assert says in str(caught.value)


def test_unknown_tasks(tmp_path):
    for name, says in (
        ("gsm", "unknown task 'gsm'"), ("gsm8", "did you mean 'gsm8k'"), ("lab/maths", "did you mean 'lab/math'"),
        (str(tmp_path / "no.yaml"), "there is no such file"), ("../tasks/gsm8k", "unknown task"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=says):
            load_task(name)
    broken = tmp_path / "broken.yaml"
    for text, says in (
        ("a: [1", "not readable as YAML"),
        ("- a", "a task is a YAML mapping"),
        ("a: 1\na: 2", "twice"),
    ):
        broken.write_text(text)
        with pytest.raises(ConfigError, match=says):
            load_task(str(broken))


def test_two_tasks_of_one_name(tmp_path):
    write(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "a").mkdir()
    for path in (tmp_path / "mine.yaml", tmp_path / "a" / "mine.yaml"):
        path.write_text(yaml.safe_dump({**TASK, "dataset_name": "rows.jsonl"}))
    write(tmp_path / "a" / "rows.jsonl", ROWS)
    with pytest.raises(ConfigError, match=r"both be written to mine.jsonl"):
        load_tasks([str(tmp_path / "mine.yaml"), str(tmp_path / "a" / "mine.yaml")])
    with pytest.raises(ConfigError, match="dataset_path is for one task"):
        load_tasks(["gsm8k", "sciq"], dataset_path="x.jsonl")
