"""Stands in for a run of `escd distill`: the same flags and files, no model. Run by the tests of `escd compare`.

What goes wrong is read from `trouble.json` beside the recipe of the comparison's output folder:
`{"ARM/seed-SEED": [step, what]}`, where what is "crash", "hang", "kill" or "early" (before the first evaluation).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import yaml


def main(argv):
    flags = dict(zip(argv[::2], argv[1::2], strict=True))
    recipe = yaml.safe_load(Path(flags["--config"]).read_text())
    folder, seed, steps = (
        Path(recipe["output_dir"]),
        recipe["seed"],
        int(flags.get("--max_steps", recipe["max_steps"])),
    )
    root, name = folder.parents[1], f"{folder.parent.name}/{folder.name}"
    trouble = json.loads((root / "trouble.json").read_text()) if (root / "trouble.json").is_file() else {}
    at, what = trouble.get(name, [None, None])
    resumed = flags.get("--resume_from_checkpoint") == "true"
    source = flags.get("--eval_before_from", "")
    with (root / "calls.txt").open("a") as calls:
        calls.write(f"{name} {'resumed' if resumed else 'new'} {source and 'taken'}\n")
    if what == "early":
        print("escd: error: distill: no such model")
        return 2
    before, after = (folder / "evaluation" / when / "lab.jsonl" for when in ("before", "after"))
    before.parent.mkdir(parents=True, exist_ok=True)
    after.parent.mkdir(exist_ok=True)
    if source:
        before.write_text((Path(source) / "evaluation" / "before" / "lab.jsonl").read_text())
    elif not before.is_file():
        before.write_text(answers(seed, 0.25))
    describe(folder, recipe, {"accuracy": 0.25}, None)
    done = max((int(p.name[11:]) for p in folder.glob("checkpoint-*")), default=0) if resumed else 0
    for step in range(done + 1, steps + 1):
        if step == at:
            if what == "hang":
                time.sleep(600)
            elif what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            print("Traceback ...\nValueError: NaN at step", step)
            return 1
        row = {"step": step, "completions/clipped_ratio": 0.5, "completions/mean_length": 20.0 + seed + step,
               "rows/none": 0.1, "num_tokens": 100 * step, "step_time": 0.1}  # fmt: skip
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir()
        for file in ("trainer_state.json", "optimizer.pt", "scheduler.pt"):
            (checkpoint / file).touch()
    after.write_text(answers(seed, 0.75 if recipe["completion"] == "set" else 0.5))
    describe(folder, recipe, {"accuracy": 0.25}, {"accuracy": 0.5})
    (folder / "report.html").write_text("a report")
    return 0


def answers(seed, share):
    """Eight problems of the seed, of which a share is right."""
    rows = [
        {"problem": i, "sample": 0, "prompt": f"{seed}: {i}", "response": "", "answer": "", "correct": i < 8 * share,
         "tokens": 3, "finished": True}
        for i in range(8)
    ]  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows)


def describe(folder, recipe, before, after):
    evaluation = [{"task": recipe["eval_task"], "before": before, "after": after}]
    (folder / "run.json").write_text(json.dumps({"evaluation": evaluation}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
