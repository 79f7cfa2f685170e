#!/usr/bin/env python3
"""Writes what NumPy and ml_dtypes make of bits as numbers.

expect_numbers.py GOLDEN_DIR     needs numpy and ml_dtypes; writes GOLDEN_DIR/expected/numbers.txt, one line a dtype:

    dtype TAB SHA-256 of 65536 16-bit words i * 40503 mod 65536 read as that dtype and written as little-endian doubles

Every NaN is written as 0x7ff8000000000000. All bit patterns of 8-bit and 16-bit types are among the words. For the
8-bit floats the line goes on with the 256 values in the order of their bits, in hexadecimal notation.
"""
import hashlib
import sys
from pathlib import Path

import ml_dtypes
import numpy

DTYPES = {
    "bool": "u1", "u8": "u1", "i8": "i1", "u16": "<u2", "i16": "<i2", "u32": "<u4", "i32": "<i4", "u64": "<u8",
    "i64": "<i8", "f16": "<f2", "bf16": ml_dtypes.bfloat16, "f32": "<f4", "f64": "<f8", "c64": "<f4", "c128": "<f8",
    "f8_e4m3": ml_dtypes.float8_e4m3fn, "f8_e5m2": ml_dtypes.float8_e5m2,
}


def doubles(data, dtype):
    with numpy.errstate(invalid="ignore"):
        values = data.view(dtype).astype("<f8")
    values[numpy.isnan(values)] = numpy.nan
    return values


def text(value):
    return "nan" if numpy.isnan(value) else str(value) if numpy.isinf(value) else float(value).hex()


def main(golden):
    words = (numpy.arange(65536, dtype=numpy.uint64) * 40503 % 65536).astype("<u2")
    with open(golden / "expected" / "numbers.txt", "w", encoding="ascii") as out:
        for name, dtype in DTYPES.items():
            line = [name, hashlib.sha256(doubles(words, dtype).tobytes()).hexdigest()]
            if name.startswith("f8"):
                line.append(" ".join(text(value) for value in doubles(numpy.arange(256, dtype="u1"), dtype)))
            out.write("\t".join(line) + "\n")


main(Path(sys.argv[1]))
