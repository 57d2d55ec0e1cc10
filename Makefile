# make quickstart   .venv, install, and the main job on the embedded pair
# make test         .venv, install, and the whole test suite
# make lint         lint, format check, type check
# make vllm         a server for the tests marked `served` and benchmarks/served.py (3.4 GB in ~/.cache/escd)
# make bench        the benchmarks (downloads real vocabularies, 90 MB)

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# Models this small run fastest with one thread; threads that spin while they wait can make two ten times slower.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: quickstart test lint vllm bench build clean

quickstart: $(VENV)/.train
	$(BIN)/escd distill

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

vllm:
	PYTHON=$(PYTHON) tests/serving/build_vllm.sh

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/pair_and_align.py
	$(BIN)/python benchmarks/loss.py

build: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

$(VENV)/.train: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[eval,report]'
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[test]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build
