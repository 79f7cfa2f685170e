#!/usr/bin/env python3
"""Writes tests/golden/state: one state in several formats, and what is left of it after each lossy choice.

make_state_cases.py DIR     needs torch, numpy, h5py and safetensors; run it only to add a case

    state.safetensors  state.pt  state.legacy.pt  state.npz  state.h5      the same tensors under the same names
    rounded.safetensors     what is not weights rounded by PyTorch to bf16 and back, but for counters of one element
    weights.safetensors     without what is not weights
    dropped.safetensors     without names that fit `model.b*` or `*.exp_avg_sq`
    lossy.txt               tensors rounded, largest relative error, root of the mean of their squares, by NumPy in
                            double, over what is neither 0 nor infinite nor NaN
"""
import fnmatch
import sys
from pathlib import Path

import h5py
import numpy
import torch
from safetensors.torch import save_file

SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), 1.0, -1.00390625, 1.01171875, 3.3e38, 1e-45, -3e-39, 65504.0, 1e-30]


def state():
    torch.manual_seed(5)
    special = torch.tensor(SPECIAL + [float("nan")])
    special = torch.cat([special, torch.tensor([0x7F800001, -0x5FEDCC, 0x00000001]).to(torch.int32).view(torch.float32)])
    model = {
        "conv.weight": torch.randn(4, 3, 3, 3), "conv.bias": special.clone(), "half": torch.randn(7).half(),
        "brand": torch.arange(-3, 4), "bn.num_batches_tracked": torch.tensor(12),
    }
    moments = {0: torch.Size((170, 100)), 1: torch.Size((1,)), 2: special.shape}
    optimizer = {}
    for i, shape in moments.items():
        optimizer[i] = {"step": torch.tensor(1001.0), "exp_avg": torch.randn(shape) * 1e-3,
                        "exp_avg_sq": torch.rand(shape) * 1e-9 if i else torch.zeros(3, 5)}
    optimizer[2]["exp_avg"] = special.clone()
    optimizer[2]["exp_avg_sq"] = special.double()
    return {"model": model, "optimizer": {"state": optimizer, "param_groups": [{"lr": 1e-3, "params": [0, 1, 2]}]}}


def flat(nested, prefix=""):
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        elif isinstance(value, torch.Tensor):
            yield prefix + str(key), value


def is_rounded(name, tensor):
    return name.startswith("optimizer.") and tensor.dtype == torch.float32 and tensor.numel() > 1


def bf16(tensor):
    """To bf16 and back; NaNs, for which PyTorch has two answers, quiet with what bf16 has room for of their bits."""
    quiet = (tensor.view(torch.int32) | 0x00400000) & -0x10000
    return torch.where(tensor.isnan(), quiet.view(torch.float32), tensor.bfloat16().float())


def main():
    out = Path(sys.argv[1])
    nested = state()
    tensors = dict(flat(nested))
    torch.save(nested, out / "state.pt")
    torch.save(nested, out / "state.legacy.pt", _use_new_zipfile_serialization=False)
    with h5py.File(out / "state.h5", "w", track_order=True) as file:
        for name, tensor in tensors.items():
            file.create_dataset(name.replace(".", "/"), data=tensor.numpy())
    numpy.savez(out / "state.npz", **{name: tensor.numpy() for name, tensor in tensors.items()})

    def write(name, kept):
        save_file({key: tensor.contiguous() for key, tensor in kept.items()}, out / name, {"epoch": "7"})

    write("state.safetensors", tensors)
    rounded = {name: bf16(tensor) if is_rounded(name, tensor) else tensor for name, tensor in tensors.items()}
    write("rounded.safetensors", rounded)
    write("weights.safetensors", {name: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    write("dropped.safetensors", {name: tensor for name, tensor in tensors.items()
                                  if not any(fnmatch.fnmatchcase(name, p) for p in ("model.b*", "*.exp_avg_sq"))})

    names = [name for name, tensor in tensors.items() if is_rounded(name, tensor)]
    exact = numpy.concatenate([tensors[name].double().numpy().ravel() for name in names])
    after = numpy.concatenate([rounded[name].double().numpy().ravel() for name in names])
    with numpy.errstate(invalid="ignore", divide="ignore"):
        error = numpy.abs((after - exact) / exact)[numpy.isfinite(exact) & (exact != 0)]
        rms = numpy.sqrt(numpy.mean(error * error))
    (out / "lossy.txt").write_text(f"{len(names)}\t{error.max():.2g}\t{rms:.2g}\n", encoding="ascii")


if __name__ == "__main__":
    main()
