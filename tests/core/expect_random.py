#!/usr/bin/env python3
"""Writes what core/philox.h, core/order.h and net_init of core/net.h promise, computed from their definitions.

expect_random.py GOLDEN_DIR     needs numpy; writes GOLDEN_DIR/expected/random.txt, one row a line, columns between tabs:

    word     seed purpose epoch index   the number
    shuffle  seed epoch count           the order, or its SHA-256 as little-endian 32-bit words
    split    seed count held            the samples that are held back, or the SHA-256 of all
    init     seed                       SHA-256 of all first weights of mnist-cnn as little-endian fp32
    weight   seed parameter number      one of them, in hexadecimal notation

Whole numbers stand in decimal. The generator is first tried on the known answers of Random123 1.14 (kat_vectors).
"""
import hashlib
import math
import sys
from pathlib import Path

import numpy

INIT, ORDER, SPLIT = 1, 2, 3
SEEDS = (0, 1, 42, 2**64 - 1)
KNOWN_ANSWERS = (
    ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
)
# (name, shape, fan in) of Conv 32 3x3, ReLU, MaxPool 2, Conv 64 3x3, ReLU, Flatten, Dense 128, ReLU, Dense 10 on 28x28.
MNIST_CNN = (
    ("conv1.weight", 32 * 1 * 3 * 3, 9), ("conv1.bias", 32, 9),
    ("conv2.weight", 64 * 32 * 3 * 3, 288), ("conv2.bias", 64, 288),
    ("dense1.weight", 128 * 7744, 7744), ("dense1.bias", 128, 7744),
    ("dense2.weight", 10 * 128, 128), ("dense2.bias", 10, 128),
)


def philox(counter, key):
    """Ten rounds on arrays of counters: a list of four arrays of 64-bit integers that hold 32-bit words."""
    low = numpy.uint64(0xFFFFFFFF)
    right, left = [counter[0], counter[2]], [counter[1], counter[3]]
    for number in range(10):
        keys = [(k + number * w) % 2**32 for k, w in zip(key, (0x9E3779B9, 0xBB67AE85))]
        products = [right[0] * numpy.uint64(0xD2511F53), right[1] * numpy.uint64(0xCD9E8D57)]
        high = [p >> numpy.uint64(32) for p in products]
        right = [high[1] ^ left[0] ^ numpy.uint64(keys[0]), high[0] ^ left[1] ^ numpy.uint64(keys[1])]
        left = [products[1] & low, products[0] & low]
    return [right[0], left[0], right[1], left[1]]


def words(seed, purpose, epoch, count, first_block=0):
    index = first_block + numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    whole = numpy.ones_like(index)
    counter = [index & numpy.uint64(0xFFFFFFFF), index >> numpy.uint64(32), whole * numpy.uint64(epoch),
               whole * numpy.uint64(purpose)]
    return numpy.stack(philox(counter, (seed % 2**32, seed >> 32)), axis=1).reshape(-1)[:count]


class Draws:
    def __init__(self, seed, purpose, epoch, count):
        self.words = iter(words(seed, purpose, epoch, 2 * count + 64).tolist())

    def below(self, bound):
        for word in self.words:
            if word * bound % 2**32 >= 2**32 % bound:
                return word * bound // 2**32
        raise RuntimeError("too few numbers")


def shuffled(seed, epoch, count):
    draws, items = Draws(seed, ORDER, epoch, count), list(range(count))
    for place in range(count - 1, 0, -1):
        other = draws.below(place + 1)
        items[place], items[other] = items[other], items[place]
    return items


def split(seed, count, held):
    draws, parts = Draws(seed, SPLIT, 0, count), ([], [])
    for i in range(count):
        parts[draws.below(count - i) < held - len(parts[1])].append(i)
    return parts


def first_weights(seed):
    for number, (name, count, fan_in) in enumerate(MNIST_CNN):
        units = ((words(seed, INIT, number, count) >> numpy.uint64(8)).astype("f8") + 0.5) / 2**24
        yield name, ((2 * units - 1) * (1 / math.sqrt(fan_in))).astype("<f4")


def digest(items):
    return hashlib.sha256(numpy.array(items, dtype="<u4").tobytes()).hexdigest()


def text(items):
    return " ".join(map(str, items)) or "-"


def rows():
    for seed in SEEDS:
        for purpose, epoch, index in ((INIT, 0, 0), (ORDER, 7, 3), (SPLIT, 2**32 - 1, 4), (ORDER, 1, 2**34 + 5),
                                      (ORDER, 1, 2**64 - 1)):
            number = words(seed, purpose, epoch, 4, index // 4)[index % 4]
            yield "word", seed, purpose, epoch, index, number
        for epoch, count in ((0, 1), (0, 2), (0, 3), (0, 17), (1, 17), (2**32 - 1, 17)):
            yield "shuffle", seed, epoch, count, text(shuffled(seed, epoch, count))
        yield "shuffle", seed, 3, 54000, digest(shuffled(seed, 3, 54000))
        for count, held in ((1, 0), (1, 1), (20, 0), (20, 2), (20, 20)):
            yield "split", seed, count, held, text(split(seed, count, held)[1])
        yield "split", seed, 60000, 6000, digest(sum(split(seed, 60000, 6000), []))
        weights = dict(first_weights(seed))
        yield "init", seed, hashlib.sha256(b"".join(w.tobytes() for w in weights.values())).hexdigest()
        for number, values in enumerate(weights.values()):
            for k in (0, 1, len(values) - 1):
                yield "weight", seed, number, k, float(values[k]).hex()


def main(golden):
    for counter, key, expected in KNOWN_ANSWERS:
        got = philox([numpy.array([int(w, 16)], dtype=numpy.uint64) for w in counter.split()],
                     [int(w, 16) for w in key.split()])
        assert " ".join(f"{int(w[0]):08x}" for w in got) == expected
    with open(golden / "expected" / "random.txt", "w", encoding="ascii") as out:
        for row in rows():
            out.write("\t".join(map(str, row)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
