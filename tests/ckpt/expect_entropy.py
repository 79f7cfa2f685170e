#!/usr/bin/env python3
"""Prints what test_codec_dtypes.c expects: bits that an element of each kind of numbers may take, by NumPy.

Needs numpy. Each bound is the order-0 entropy of the part of an element that is not evenly spread (sign and exponent of
floats, all of small types) plus the other bits as they are. The numbers are made as by weights.h.
"""
import numpy

COUNT = 1 << 15
MASK = (1 << 64) - 1


def randoms(count, seed=21):
    """random_next of weights.h."""
    for _ in range(count):
        seed ^= seed << 13 & MASK
        seed ^= seed >> 7
        seed ^= seed << 17 & MASK
        yield seed


def weights():
    """fill_weights of weights.h: the sums of four even numbers, in single precision."""
    words = numpy.fromiter(randoms(4 * COUNT), dtype=numpy.uint64, count=4 * COUNT)
    parts = (words >> numpy.uint64(32)).astype(numpy.uint32).view(numpy.int32).astype(numpy.float32)
    parts = (parts / numpy.float32(2147483648)).reshape(COUNT, 4)
    total = numpy.zeros(COUNT, numpy.float32)
    for column in parts.T:
        total += column
    return total * numpy.float32(0.05)


def entropy(symbols):
    _, counts = numpy.unique(symbols, return_counts=True)
    share = counts / counts.sum()
    return -(share * numpy.log2(share)).sum()


def main():
    f32 = weights().view(numpy.uint32)
    quantised = numpy.rint(weights() * numpy.float32(500)).astype(numpy.int8)
    wide = weights().astype(numpy.float64)
    f64 = numpy.copysign(numpy.sqrt(numpy.abs(wide)), wide).view(numpy.uint64)
    rows = numpy.fromiter(randoms(COUNT), dtype=numpy.uint64, count=COUNT) % numpy.uint64(50000)
    sign_exponent = entropy(f32 >> 23)
    # From float32 by cutting: of 5 bits of exponent what is below 2^-14 is zero.
    exponent = numpy.where(f32 >> 23 & 255 > 112, f32 >> 23, f32 >> 31 << 8)
    print("F32", sign_exponent + 23)
    print("BF16", sign_exponent + 7)
    print("F16", entropy(exponent) + 10)
    print("F64", entropy(f64 >> numpy.uint64(52)) + 52)
    print("I8", entropy(quantised))
    narrow = numpy.clip((f32 >> 23 & 255).astype(int) - 112, 0, 15).astype(numpy.uint32)
    e4m3 = f32 >> 31 << 7 | narrow << 3 | f32 >> 20 & 7
    print("F8", entropy(e4m3))
    print("I64", entropy(rows >> numpy.uint64(8)) + entropy(rows & numpy.uint64(255)))
    print("colors", len(numpy.unique(quantised)))


main()
