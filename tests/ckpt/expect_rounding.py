#!/usr/bin/env python3
"""Writes numbers and what the narrower types make of them, by exact arithmetic; NumPy has to agree where it has a type.

expect_rounding.py GOLDEN_DIR     needs numpy; writes GOLDEN_DIR/expected/rounding.txt, one line a number:

    bits of the double TAB bits as f16 TAB bits as bf16 TAB bits as f32        in hexadecimal
"""
import random
import struct
import sys
from fractions import Fraction
from pathlib import Path

import numpy

TYPES = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8)}  # bits of mantissa and exponent


def rounded_bits(bits, mantissa, exponent):
    sign, size = bits >> 63, bits & (1 << 63) - 1
    top = ((1 << exponent) - 1) << mantissa
    if size >= 0x7FF << 52:
        return sign << mantissa + exponent | top | (1 << mantissa - 1 if size > 0x7FF << 52 else 0)
    value = abs(Fraction(struct.unpack("<d", struct.pack("<Q", size))[0]))
    below, above = 0, top  # the numbers of a type are in the order of their bits
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if number(middle, mantissa, exponent) <= value else (below, middle)
    distance = value - number(below, mantissa, exponent), number(above, mantissa, exponent) - value
    nearest = below if distance[0] < distance[1] or distance[0] == distance[1] and below % 2 == 0 else above
    return sign << mantissa + exponent | nearest


def number(bits, mantissa, exponent):
    """What bits without a sign stand for; the first that is infinite as if there were one more exponent."""
    power, fraction = bits >> mantissa, bits & (1 << mantissa) - 1
    least = 2 - (1 << exponent - 1) - mantissa
    return Fraction(fraction if power == 0 else (1 << mantissa) + fraction) * Fraction(2) ** (least + max(power, 1) - 1)


def samples():
    yield from (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 5e-324, -1.7976931348623157e308)
    source = random.Random(1)
    for mantissa, exponent in TYPES.values():
        count = (1 << exponent) - 1 << mantissa
        for _ in range(60):  # on numbers of the type, between them, and right beside the middle
            low = source.choice([source.randrange(count - 1), source.randrange(4), count - 2, (1 << mantissa) - 1])
            a, b = float(number(low, mantissa, exponent)), float(number(low + 1, mantissa, exponent))
            middle = (a + b) / 2
            for value in (a, middle, float(numpy.nextafter(middle, 0)), float(numpy.nextafter(middle, numpy.inf))):
                yield value * source.choice((1, -1))
    for _ in range(100):
        yield struct.unpack("<d", struct.pack("<Q", source.getrandbits(64) & ~(1 << 62) | source.getrandbits(1) << 62))[0]


def main(golden):
    lines = set()
    for value in samples():
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        found = {name: rounded_bits(bits, *shape) for name, shape in TYPES.items()}
        if value == value:
            with numpy.errstate(over="ignore"):
                assert found["f16"] == int(numpy.float64(value).astype("<f2").view("<u2")), value.hex()
                assert found["f32"] == int(numpy.float64(value).astype("<f4").view("<u4")), value.hex()
        lines.add(f"{bits:016x}\t{found['f16']:04x}\t{found['bf16']:04x}\t{found['f32']:08x}\n")
    (golden / "expected" / "rounding.txt").write_text("".join(sorted(lines)), encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
