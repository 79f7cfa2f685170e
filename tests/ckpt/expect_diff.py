#!/usr/bin/env python3
"""Writes how much the tensors of golden inputs differ, as NumPy and exact sums find.

expect_diff.py GOLDEN_DIR     needs torch and numpy; writes GOLDEN_DIR/expected/diff_NAME.txt, one line a tensor:

    name TAB change TAB elements TAB changed TAB largest |b-a| TAB mean |b-a| TAB |b-a|/|a| TAB cosine

in the order of the first file, then those that only the second one has. The loader executes what pickles say: run this
only on the golden inputs.
"""
import json
import math
import sys
from pathlib import Path

import numpy
import torch

PAIRS = {
    "neighbours": ("checkpoint_epoch_1.pt", "checkpoint_epoch_2.pt"),
    "weights": ("model_epoch_1.safetensors", "model_epoch_3.safetensors"),
    "formats": ("checkpoint_epoch_2.pt", "model_epoch_3.safetensors"),
    "types": ("adamw_bf16_step_30.pt", "model_epoch_1.safetensors"),
}
SAFETENSORS_DTYPES = {"F32": "<f4", "I64": "<i8"}
CONTAINERS = ("model.",)


def torch_tensors(value, path=()):
    if isinstance(value, torch.Tensor):
        yield ".".join(path), value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from torch_tensors(item, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from torch_tensors(item, (*path, str(index)))


def load(path):
    """Pairs of name, and of type and numbers as doubles."""
    if path.suffix == ".pt":
        for name, tensor in torch_tensors(torch.load(path, map_location="cpu")):
            yield name, str(tensor.dtype), tensor.detach().double().numpy()
        return
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            dtype = numpy.dtype(SAFETENSORS_DTYPES[entry["dtype"]])
            numbers = numpy.frombuffer(data[8 + size + begin:8 + size + end], dtype).reshape(entry["shape"])
            yield name, "torch." + dtype.name, numbers.astype(float)


def bare(name):
    for container in CONTAINERS:
        if name.startswith(container):
            return name[len(container):]
    return name


def compare(a, b):
    a, b = a.ravel(), b.ravel()
    assert numpy.isfinite(a).all() and numpy.isfinite(b).all()
    assert not ((a == b) & (numpy.signbit(a) != numpy.signbit(b))).any()  # so values differ where bits do
    changed = int((a != b).sum())
    absolute = numpy.abs(b - a)
    squares = [math.fsum(numpy.square(x)) for x in (b - a, a, b)]
    l2 = 0 if not squares[0] else math.sqrt(squares[0] / squares[1]) if squares[1] else math.inf
    both = math.sqrt(squares[1]) * math.sqrt(squares[2])
    cosine = math.fsum(a * b) / both if both else math.nan
    return "changed" if changed else "same", changed, absolute.max(), math.fsum(absolute) / a.size, l2, cosine


def rows(path_a, path_b):
    b_by_name = {bare(name): numbers for name, _, numbers in load(path_b)}
    seen = set()
    for name, _, a in load(path_a):
        b = b_by_name.get(bare(name))
        if b is None:
            yield name, "removed", a.size, 0, 0.0, 0.0, 0.0, math.nan
            continue
        seen.add(bare(name))
        if a.shape != b.shape:
            yield name, "reshaped", a.size, 0, 0.0, 0.0, 0.0, math.nan
            continue
        change, *numbers = compare(a, b)
        yield name, change, a.size, *numbers
    for name, _, b in load(path_b):
        if bare(name) not in seen:
            yield name, "added", b.size, 0, 0.0, 0.0, 0.0, math.nan


def main(golden):
    for pair, files in PAIRS.items():
        with open(golden / "expected" / f"diff_{pair}.txt", "w", encoding="utf-8") as out:
            for row in rows(*(golden / "trajectory-tiny" / name for name in files)):
                out.write("\t".join(repr(float(x)) if isinstance(x, float) else str(x) for x in row) + "\n")


main(Path(sys.argv[1]))
