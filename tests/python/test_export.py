#!/usr/bin/env python3
"""`ckpt export` beside PyTorch and NumPy: what it writes loads there, with the same bits."""
import json
import os
import struct
import subprocess
import sys
import zipfile

from ckpt_case import SKIPPED, Case, main, torch_bytes

try:
    import numpy
    import torch
except ImportError as why:
    print(f"skipped: {why} (python3-torch, python3-numpy)")
    sys.exit(SKIPPED)

TYPES = [name for name in ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 "
                           "uint32 uint64 float8_e4m3fn float8_e5m2").split() if hasattr(torch, name)]
IN_NUMPY = [name for name in TYPES if name != "bfloat16" and not name.startswith("float8")]
IN_SAFETENSORS = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
                  "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32",
                  "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def of_type(name):
    """All byte values, and so NaNs, infinities and denormals."""
    bits = torch.arange(256, dtype=torch.uint8)
    if name == "bool":
        return (bits % 3 == 0).reshape(16, 16)
    return bits.repeat(2).view(getattr(torch, name)).reshape(4, 2, -1)


def layouts():
    base = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    return {"transposed": base.t(), "every_second": base[::2, 1:3], "row": base[2], "scalar": torch.tensor(2.5),
            "empty": torch.zeros(0, 3), "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)}


def read_safetensors(path):
    """As the description of the format says, without the package."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, row in header.items():
        begin, end = row["data_offsets"]
        raw = torch.tensor(list(data[8 + size + begin:8 + size + end]), dtype=torch.uint8)
        dtype = getattr(torch, IN_SAFETENSORS[row["dtype"]])
        tensors[name] = (raw.bool() if dtype == torch.bool else raw.view(dtype)).reshape(row["shape"])
    return tensors


class Export(Case):
    def export(self, *arguments, exit_status=0):
        done = subprocess.run([os.environ["CKPT_PROGRAM"], "export", *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, exit_status, done.stderr)
        return done

    def assert_equal_tensors(self, got, wanted):
        self.assertEqual(sorted(got), sorted(wanted))
        for name in wanted:
            self.assertEqual((got[name].dtype, got[name].shape), (wanted[name].dtype, wanted[name].shape), name)
            self.assertEqual(torch_bytes(got[name].contiguous()), torch_bytes(wanted[name].contiguous()), name)

    def load_pt(self, name="out.pt"):
        return torch.load(self.folder / name, weights_only=True)

    def test_every_type_loads_in_pytorch_with_the_same_bits(self):
        state = {name: of_type(name) for name in TYPES}
        torch.save(state, "in.pt")
        self.export("in.pt", "--to", "pt", "-o", "out.pt")
        self.assert_equal_tensors(self.load_pt(), state)

    def test_every_layout_becomes_row_major(self):
        torch.save(layouts(), "in.pt")
        self.export("in.pt", "--to", "pt", "-o", "out.pt")
        got = self.load_pt()
        self.assert_equal_tensors(got, layouts_of("in.pt"))
        self.assertTrue(all(tensor.is_contiguous() for tensor in got.values()))

    def test_nested_states_are_flat(self):
        torch.save({"model": {"fc.weight": torch.ones(2, 2)}, "optimizer": {"state": {0: {"step": torch.tensor(3.)}}}},
                   "in.pt")
        self.export("in.pt", "--to", "pt", "-o", "out.pt")
        self.assert_equal_tensors(self.load_pt(), {"model.fc.weight": torch.ones(2, 2),
                                                   "optimizer.state.0.step": torch.tensor(3.)})

    def test_numpy_reads_every_type_that_it_has(self):
        state = {name: of_type(name) for name in IN_NUMPY if name not in ("uint16", "uint32", "uint64")}
        state.update(layouts())
        torch.save(state, "in.pt")
        self.export("in.pt", "--to", "npz", "-o", "out.npz")
        with numpy.load("out.npz") as arrays:
            self.assert_equal_tensors({name: torch.from_numpy(arrays[name].copy()) for name in arrays.files},
                                      {**state, **layouts_of("in.pt")})
            self.assertFalse(any(arrays[name].flags.fnc for name in arrays.files))

    def test_numpy_has_no_bf16(self):
        torch.save({"a": torch.ones(3).bfloat16()}, "in.pt")
        done = self.export("in.pt", "--to", "npz", "-o", "out.npz", exit_status=2)
        self.assertIn("NumPy has no type bf16", done.stderr)
        self.assertIn("--dtype f32", done.stderr)
        self.assertEqual(sorted(os.listdir(".")), [".ckpt", "in.pt"])
        self.export("in.pt", "--to", "npz", "-o", "out.npz", "--dtype", "f32")
        self.assertEqual(numpy.load("out.npz")["a"].tolist(), [1, 1, 1])

    def test_safetensors_holds_the_same(self):
        state = {name: of_type(name) for name in TYPES if name != "complex128"}
        torch.save(state, "in.pt")
        self.export("in.pt", "--to", "safetensors", "-o", "out.safetensors")
        self.assert_equal_tensors(read_safetensors(self.folder / "out.safetensors"), state)
        try:
            from safetensors.torch import load_file
        except ImportError:
            return
        self.assert_equal_tensors(load_file("out.safetensors"), state)

    def test_conversions_are_those_of_pytorch(self):
        words = torch.arange(-2**31, 2**31, 65521 * 7, dtype=torch.int64).to(torch.int32)
        exact = words.view(torch.float32)
        exact = torch.cat([exact[~exact.isnan()], torch.tensor([65504., 65519., 65520., 3.4e38, 1e-45, 0., -0.])])
        count = torch.arange(5)
        torch.save({"exact": exact, "count": count}, "in.pt")
        for word, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f64", torch.float64)):
            done = self.export("in.pt", "--to", "pt", "-o", "out.pt", "--dtype", word, "--yes", "--json")
            self.assert_equal_tensors(self.load_pt(), {"exact": exact.to(dtype), "count": count})
            self.assertEqual(json.loads(done.stdout)["lossy"] is None, word == "f64")

    def test_members_are_aligned_and_have_the_right_crc(self):
        torch.save({name: of_type(name) for name in IN_NUMPY}, "in.pt")
        for kind in ("pt", "npz"):
            self.export("in.pt", "--to", kind, "-o", "out." + kind)
            with zipfile.ZipFile("out." + kind) as archive:
                self.assertIsNone(archive.testzip())
                data = (self.folder / ("out." + kind)).read_bytes()
                for row in archive.infolist():
                    name_size, extra_size = struct.unpack_from("<HH", data, row.header_offset + 26)
                    self.assertEqual((row.header_offset + 30 + name_size + extra_size) % 64, 0, row.filename)

    def test_names_of_several_files_are_told_apart(self):
        os.mkdir("run")
        for i in (1, 2):
            torch.save({"w": torch.full((2,), float(i)), f"own{i}": torch.zeros(1)}, f"run/rank{i}.pt")
        subprocess.run([os.environ["CKPT_PROGRAM"], "save", "-q", "run"], check=True)
        self.export("--to", "pt", "-o", "out.pt")
        got = self.load_pt()
        self.assertEqual(sorted(got), ["own1", "own2", "run/rank1.pt:w", "run/rank2.pt:w"])
        self.assertEqual(got["run/rank2.pt:w"].tolist(), [2, 2])
        self.export("latest", "--to", "pt", "-o", "one.pt", "--file", "run/rank2.pt", "--only", "w")
        self.assert_equal_tensors(self.load_pt("one.pt"), {"w": torch.full((2,), 2.)})


def layouts_of(path):
    """The layouts as PyTorch reads them back."""
    return {name: tensor for name, tensor in torch.load(path, weights_only=True).items() if name in layouts()}


if __name__ == "__main__":
    main()
