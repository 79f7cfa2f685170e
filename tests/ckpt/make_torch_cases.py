#!/usr/bin/env python3
"""Writes tests/golden/cases: files of PyTorch and NumPy with the structures that the other golden inputs lack.

make_torch_cases.py DIR     needs torch and numpy; run it only to add a case, then refresh with expect_torch.py
"""
import collections
import sys
from pathlib import Path

import numpy
import torch

Pair = collections.namedtuple("Pair", "first second")


def views():
    """Several tensors on one storage, and layouts other than row-major."""
    base = torch.arange(24, dtype=torch.float32)
    image = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).reshape(2, 3, 4, 4)
    return {
        "all": base,
        "slice": base[4:12],
        "overlap": base[8:20],
        "every_second": base[1::2],
        "matrix": base.reshape(4, 6),
        "transposed": base.reshape(4, 6).t(),
        "channels_last": image.contiguous(memory_format=torch.channels_last),
        "expanded": torch.ones(1).expand(1000),
        "empty": torch.empty(0, 5),
        "scalar": torch.tensor(3.5, dtype=torch.float64),
        "unit_dimensions": base.as_strided((1, 4, 1), (7, 1, 99)),
    }


def nesting():
    """Every kind of container and key, and values that are no tensors."""
    shared = torch.ones(2)
    return {
        "list": [torch.zeros(1), [torch.ones(1), 7], "text"],
        "tuple": (torch.zeros(2), None, 2.5),
        1: {True: torch.ones(3), -4: torch.zeros(3)},
        "ordered": collections.OrderedDict(a=torch.ones(1), b=collections.OrderedDict(c=torch.zeros(1))),
        "tied": {"in": shared, "out": shared},
        "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        "unnamed": {(1, 2): torch.zeros(9), None: torch.zeros(9), 1.5: torch.zeros(9)},
        "numpy": numpy.arange(3),
        "numpy_scalar": numpy.float64(1.5),
        "long": 1 << 100,
        "set": {1, 2},
        "bytes": b"\x00\xff",
        "size": torch.Size([1, 2]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "unicode äöü 中文": torch.ones(1),
    }


def special_tensors():
    """Tensors that are more than a view of numbers, beside an ordinary one."""
    return {
        "sparse": torch.eye(3).to_sparse(),
        "quantized": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
        "plain": torch.arange(4),
    }


def optimizer_state():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    return {"epoch": 2, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict(),
            "rng": [torch.get_rng_state()[:64].clone(), numpy.random.RandomState(0).get_state()[0]]}


def whole_module():
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))


def main():
    out = Path(sys.argv[1])
    torch.manual_seed(1)
    torch.save(views(), out / "views.pt")
    torch.save(nesting(), out / "nesting.pt")
    torch.save(nesting(), out / "nesting_protocol_4.pt", pickle_protocol=4)
    torch.save(special_tensors(), out / "special_tensors.pt")
    torch.save(optimizer_state(), out / "adam.pt")
    torch.save(whole_module(), out / "module.pt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), str(out / "script.pt"))

    matrix = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    numpy.save(out / "matrix.npy", matrix)
    numpy.save(out / "fortran.npy", numpy.asfortranarray(matrix))
    numpy.save(out / "big_endian.npy", matrix.astype(">f4"))
    numpy.save(out / "scalar.npy", numpy.complex128(1 + 2j))
    numpy.save(out / "object.npy", numpy.array([{}, []], dtype=object))
    numpy.save(out / "record.npy", numpy.zeros(2, dtype=[("a", "<i4"), ("b", "<f8")]))
    numpy.savez(out / "mixed.npz", plain=matrix, object=numpy.array([None]), fortran=numpy.asfortranarray(matrix),
                empty=numpy.zeros((0, 3), dtype=numpy.int16))
    numpy.savez_compressed(out / "compressed.npz", plain=matrix)


if __name__ == "__main__":
    main()
