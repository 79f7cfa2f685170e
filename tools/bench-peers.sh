#!/usr/bin/env bash
# Makes the folder of peers that `ckpt bench` compares with: a Python virtual environment with PyTorch, zipnn and
# openzl, and states of a real training (about 820 MB; ten minutes on two cores after the download).
#
#   tools/bench-peers.sh [FOLDER]      default build/peers
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../build/peers}
case ${1:-} in
-h | --help)
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [ ! -x "$folder/venv/bin/python" ]; then
    python3 -m venv "$folder/venv" || {
        echo "bench-peers: needs python3 with venv (Debian: python3-venv)" >&2
        exit 9
    }
fi
"$folder/venv/bin/python" -c 'import torch, zipnn, numpy' 2>/dev/null ||
    "$folder/venv/bin/pip" install --quiet torch numpy zipnn
"$folder/venv/bin/python" -c 'import openzl' 2>/dev/null || "$folder/venv/bin/pip" install --quiet openzl ||
    echo "bench-peers: openzl cannot be installed here; its rows are left out" >&2
cp "$here/bench/peers.py" "$here/bench/train_mnist.py" "$folder/"
if [ ! -f "$folder/state_0100.pt" ]; then
    "$folder/venv/bin/python" "$here/bench/train_pair.py" "$folder"
fi
if [ ! -f "$folder/decay_0100.pt" ]; then
    "$folder/venv/bin/python" "$here/bench/train_pair.py" "$folder" --decay
fi
echo "peers are in $folder"
