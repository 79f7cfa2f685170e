#!/usr/bin/env python3
"""Writes what PyTorch, NumPy and a reader of safetensors see in the golden inputs.

expect_torch.py GOLDEN_DIR     needs torch, numpy and h5py; writes GOLDEN_DIR/expected/FOLDER/FILE.txt, one line a tensor:

    name TAB dtype TAB shape TAB strides TAB SHA-256 of the elements in row-major order

Files that ckpt keeps as opaque bytes have no expectation. The loaders execute what pickles say: run this only on the
golden inputs.
"""
import ctypes
import hashlib
import io
import json
import pickle
import sys
import zipfile
from pathlib import Path

import h5py
import numpy
import torch

TORCH_DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
    torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "c64", torch.complex128: "c128", torch.float8_e4m3fn: "f8_e4m3", torch.float8_e5m2: "f8_e5m2",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
}
SAFETENSORS_WIDTHS = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}
ALONE = "tensor"


def line(name, dtype, shape, strides, data):
    numbers = [",".join(map(str, values)) or "-" for values in (shape, strides)]
    return "\t".join([name, dtype, *numbers, hashlib.sha256(data).hexdigest()]) + "\n"


SPARSE_PARTS = {
    torch.sparse_coo: ("indices", "values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
}


def plain_tensors(value, path):
    """The views of numbers that a tensor consists of: none where the file has other numbers than those it shows."""
    if value.layout in SPARSE_PARTS:
        if value.layout == torch.sparse_coo:
            value = value.coalesce()
        for part in SPARSE_PARTS[value.layout]:
            yield ".".join(path + [part]), getattr(value, part)()
    elif value.is_quantized:
        yield ".".join(path + ["int_repr"]), value.int_repr()
    elif value.is_meta or value.is_conj() or value.is_neg():
        return
    elif value.numel() * value.element_size() <= value.untyped_storage().nbytes():  # else expanded: more than its bytes
        yield ".".join(path) or ALONE, value


def torch_tensors(value, path):
    """Pairs of name and tensor in the order of the containers."""
    if isinstance(value, torch.Tensor):
        yield from plain_tensors(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, (str, int)):
                yield from torch_tensors(item, path + [str(key)])
    elif type(value) in (list, tuple):
        for index, item in enumerate(value):
            yield from torch_tensors(item, path + [str(index)])
    elif isinstance(value, torch.nn.Module):
        yield from torch_tensors(value.__dict__, path)


def torch_line(name, tensor):
    dense = tensor.detach().contiguous()
    data = ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size()) if dense.numel() else b""
    return line(name, TORCH_DTYPES[tensor.dtype], tensor.shape, tensor.stride(), data)


def expect_torch(path):
    try:
        state = torch.load(path, map_location="cpu", weights_only=False)
    except RuntimeError:  # PyTorch refuses a wrong CRC; the same bytes stand in the file without any
        state = torch.load(path.with_name(path.name.replace("wrong_crc", "no_crc")), weights_only=False)
    for name, tensor in torch_tensors(state, []):
        yield torch_line(name, tensor)


def expect_distcp(path):
    """The parts in the order of the file; a piece that does not begin at 0 has its place behind its name."""
    metadata = pickle.loads((path.parent / ".metadata").read_bytes())
    data = path.read_bytes()
    parts = [(info.offset, info.length, key) for key, info in metadata.storage_data.items()
             if info.relative_path == path.name]
    for offset, length, key in sorted(parts, key=lambda part: part[0]):
        place = "@" + ",".join(map(str, key.offset)) if key.offset and any(key.offset) else ""
        value = torch.load(io.BytesIO(data[offset:offset + length]), weights_only=False)
        for name, tensor in torch_tensors(value, [key.fqn + place]):
            yield torch_line(name, tensor)


def expect_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        shape = entry["shape"]
        strides = [int(numpy.prod(shape[i + 1:], dtype=numpy.int64)) for i in range(len(shape))]
        begin, end = entry["data_offsets"]
        assert end - begin == SAFETENSORS_WIDTHS[entry["dtype"]] * int(numpy.prod(shape, dtype=numpy.int64))
        yield line(name, entry["dtype"].lower(), shape, strides, data[8 + size + begin:8 + size + end])


def row_major(shape):
    """Strides in elements; a dimension of 0 counts as 1."""
    return [int(numpy.prod([size or 1 for size in shape[i + 1:]], dtype=numpy.int64)) for i in range(len(shape))]


def numpy_line(name, array, strides=None):
    kinds = {"b": "bool"}
    dtype = kinds.get(array.dtype.kind, f"{array.dtype.kind}{array.dtype.itemsize * 8}")
    if strides is None:
        strides = [stride // array.itemsize for stride in array.strides]
    return line(name, dtype, array.shape, strides, array.tobytes())


def expect_npy(path):
    yield numpy_line(ALONE, numpy.load(path))


def expect_npz(path):
    with numpy.load(path, allow_pickle=True) as archive:
        for name in archive.files:
            if archive[name].dtype.kind not in "OV" and archive[name].dtype.byteorder != ">":
                yield numpy_line(name, archive[name])


def hdf5_lines(file):
    """Datasets of plain little-endian numbers in one piece, by the names of their links."""
    def visit(group, path):
        for key in group:
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                continue
            item = group[key]
            if key == "many" and file.id.get_create_plist().get_version()[0] >= 2:
                continue  # its links stand in a heap
            if isinstance(item, h5py.Group):
                yield from visit(item, path + [key])
            elif (item.chunks is None and item.dtype.kind in "biufc" and item.dtype.byteorder != ">"
                  and item.shape is not None):
                values = numpy.asarray(item[()], dtype=item.dtype)
                yield numpy_line(".".join(path + [key]), values, row_major(values.shape))
    yield from sorted(visit(file, []), key=lambda text: text.split("\t")[0])


def expect_hdf5(path):
    with h5py.File(path) as file:
        if path.name != "chunks.h5":
            yield from hdf5_lines(file)
            return
        for name in sorted(file):
            if not name.startswith("left_out"):
                yield numpy_line(name, file[name][()], row_major(file[name].shape))


def expect_keras(path):
    with zipfile.ZipFile(path) as archive, h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
        yield from hdf5_lines(file)


READERS = {".h5": expect_hdf5, ".keras": expect_keras,
           ".pt": expect_torch, ".pth": expect_torch, ".bin": expect_torch, ".ckpt": expect_torch,
           ".distcp": expect_distcp, ".safetensors": expect_safetensors, ".npy": expect_npy, ".npz": expect_npz}
# What ckpt refuses, by design: TorchScript, and what are no plain numbers.
OPAQUE = {"script.pt", "object.npy", "record.npy", "big_endian.npy"}


def is_opaque(path):
    return path.name in OPAQUE


def main():
    golden = Path(sys.argv[1])
    for path in sorted(p for folder in ("torch", "trajectory-tiny", "cases", "folders") for p in (golden / folder).rglob("*")):
        if path.suffix not in READERS or is_opaque(path):
            continue
        target = golden / "expected" / path.relative_to(golden).with_name(path.name + ".txt")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(READERS[path.suffix](path)), encoding="utf-8")


if __name__ == "__main__":
    main()
