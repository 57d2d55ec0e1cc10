"""Objectives times seeds from one base student: `escd compare recipe.yaml`.

Every arm starts from the same student. With one seed all arms see the same prompts in the same order and write the
same number of responses to a step; they differ in the flags that the recipe gives them. Each run is an `escd distill`
of its own in `OUTPUT_DIR/ARM/seed-SEED`; the same command continues a comparison that was stopped.

A recipe is YAML:

```yaml
# everything that `escd distill` takes, for all runs
model_name_or_path: lab/student
teacher_model_name_or_path: lab/teacher
dataset_name: lab
eval_task: lab
max_steps: 100

# what is compared
arms:                        # name -> flags that differ; a plain list [escd, bpm] names objectives
  escd: {objective: escd}
  escd-none: {objective: escd, completion: none}
seeds: [1, 2, 3, 4, 5]       # or how many: 5 stands for 1 to 5
reference: escd              # the arm that the others are compared with
output_dir: runs/compare-lab # default: runs/compare- and the name of the recipe
processes: 2                 # runs at a time; default: cores / torch_threads, 1 with an accelerator
```

Flags after the recipe override its values: `--max_steps 20`, `--seeds 1 2` (the seeds themselves), `--arms escd bpm`
(some of its arms), `--reference`, `--output_dir`, `--processes`. Arms may set objective, optimiser and teacher, not
what makes them comparable: student, prompts, evaluation, steps, batch and sampling.

What it leaves in the output folder: `comparison.md` (the table), `comparison.html`, `curves.png`, `table.csv` (a row
per task and arm), `comparison.csv` (a row per figure: arm, task, seed, metric, value), `comparison.json` (what was
compared), `attempts.jsonl` (a row per process: exit code, seconds, peak memory in bytes), and beside the folder of
each run `seed-SEED.yaml`, its recipe for `escd distill --config`, and `seed-SEED.log`.
"""
