#!/usr/bin/env python3
"""The structs and numbers that ckpt.py spells out are those of the C headers, as the compiler lays them out."""
import ctypes
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from ckpt_case import ROOT, ckpt, main

STRUCTS = [value for value in vars(ckpt).values()
           if isinstance(value, type) and issubclass(value, ctypes.Structure) and value is not ctypes.Structure]
NUMBERS = {"CKPT_RANK_MAX": ckpt._RANK_MAX, "CKPT_ID_SIZE": ckpt._ID_SIZE, "CKPT_STEP_NONE": ckpt._STEP_NONE,
           "CKPT_ORDINARY": ckpt._IMPORTANCE["ordinary"], "CKPT_BEST": ckpt._IMPORTANCE["best"],
           "CKPT_KEEP": ckpt._IMPORTANCE["keep"], "CKPT_LEVEL_DEFAULT": ckpt._LEVELS["default"],
           "CKPT_LEVEL_FAST": ckpt._LEVELS["fast"], "CKPT_LEVEL_MAX": ckpt._LEVELS["max"], "CKPT_EUSAGE": ckpt.USAGE, "CKPT_ECONFIRM": ckpt.CONFIRM,
           "CKPT_EDATA": ckpt.DATA, "CKPT_EFORMAT": ckpt.FORMAT, "CKPT_ECHANGED": ckpt.CHANGED,
           "CKPT_ENOTFOUND": ckpt.NOTFOUND, "CKPT_ENOSTORE": ckpt.NOSTORE, "CKPT_ENOSPC": ckpt.NOSPACE,
           "CKPT_EBUSY": ckpt.BUSY, "CKPT_EMISSING": ckpt.MISSING, "CKPT_EVERSION": ckpt.VERSION, "CKPT_EIO": ckpt.IO,
           "CKPT_ENOMEM": ckpt.NOMEMORY, "CKPT_EBUG": ckpt.BUG, "CKPT_EINTERRUPTED": ckpt.INTERRUPTED}
# ckpt_dtype_name of <ckpt/store.h> to the names of NumPy and PyTorch.
DTYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
          "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
          "C64": "complex64", "C128": "complex128", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def expressions():
    """C expressions, each with the number that Python believes it to be."""
    for struct in STRUCTS:
        yield f"sizeof({struct.__name__})", ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            yield f"offsetof({struct.__name__}, {field})", getattr(struct, field).offset
            yield f"sizeof((({struct.__name__} *)0)->{field})", getattr(struct, field).size
    yield from NUMBERS.items()
    for c_name, name in DTYPES.items():
        yield f"CKPT_{c_name}", ckpt._DTYPE_NUMBERS[name]


class Layout(unittest.TestCase):
    def test_every_struct_is_laid_out_as_by_the_compiler(self):
        wanted = list(expressions())
        lines = "".join(f'    printf("%lld\\n", (long long)({text}));\n' for text, _ in wanted)
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "layout.c"), Path(folder, "layout")
            source.write_text("#include <ckpt/store.h>\n#include <stdio.h>\nint main(void)\n{\n" + lines + "}\n")
            subprocess.run([os.environ.get("CC", "cc"), f"-I{ROOT}/base/include", f"-I{ROOT}/ckpt/include", source,
                            "-o", program], check=True)
            printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([(text, int(number)) for (text, _), number in zip(wanted, printed)], wanted)

    def test_every_struct_that_is_used_is_compared(self):
        self.assertEqual(len(STRUCTS), 12)
        self.assertEqual(len(DTYPES), len(ckpt._DTYPES))

    def test_no_field_of_a_struct_is_left_out(self):
        for struct in STRUCTS:  # by the sizes above, a field could only be missing in padding
            ends = [getattr(struct, field).offset + getattr(struct, field).size for field, *_ in struct._fields_]
            starts = [getattr(struct, field).offset for field, *_ in struct._fields_[1:]] + [ctypes.sizeof(struct)]
            for (field, *_), end, start in zip(struct._fields_, ends, starts):
                self.assertLess(start - end, ctypes.alignment(struct), f"{struct.__name__} after {field}")

    def test_every_function_is_exported(self):
        for name in [*ckpt._CALLS, *ckpt._OTHERS]:
            self.assertTrue(hasattr(ckpt._lib(), name), name)


if __name__ == "__main__":
    main()
