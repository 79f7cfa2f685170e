#!/usr/bin/env python3
"""Rebuilds a pack from its parity by docs/format.md alone: shares no code with ckpt, so that the document is known to be
enough. XXH3 is left out, as in independent_reader.py: which blocks are lost is said by the caller."""
import struct

FIXED = struct.Struct("<8sHBBIII Q 32s")


def product(a, b):
    result = 0
    while b:
        result ^= a if b & 1 else 0
        a, b = (a << 1) ^ (0x11d if a & 0x80 else 0), b >> 1
    return result


PRODUCTS = [bytes(product(a, b) for b in range(256)) for a in range(256)]
INVERSES = [0] + [PRODUCTS[a].index(1) for a in range(1, 256)]


def scaled(block, factor):
    return int.from_bytes(block.translate(PRODUCTS[factor]), "little")


def combined(factors, blocks, size):
    total = 0
    for factor, block in zip(factors, blocks):
        total ^= scaled(block, factor)
    return total.to_bytes(size, "little")


def inverted(matrix):
    """Gauss and Jordan; there is always an inverse."""
    count = len(matrix)
    rows = [row + [int(i == k) for k in range(count)] for i, row in enumerate(matrix)]
    for i in range(count):
        pivot = next(k for k in range(i, count) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [PRODUCTS[INVERSES[rows[i][i]]][x] for x in rows[i]]
        for k in range(count):
            if k != i and rows[k][i]:
                rows[k] = [x ^ PRODUCTS[rows[k][i]][y] for x, y in zip(rows[k], rows[i])]
    return [row[count:] for row in rows]


class Parity:
    def __init__(self, bytes_, offset=0):
        magic, version, log2, zero, self.m, self.groups, zeros, self.size, self.pack = FIXED.unpack_from(bytes_, offset)
        if (magic, version, zero, zeros) != (b"CKPTPARI", 1, 0, 0):
            raise ValueError("no parity, or newer")
        self.block = 1 << log2
        self.count = -(-self.size // self.block)
        self.k = -(-self.count // self.groups)
        self.head_size = FIXED.size + 8 * (self.count + self.m * self.groups + 1)
        if self.k + self.m > 255:
            raise ValueError("more than 255 blocks in a group")
        self.bytes = bytes_

    @classmethod
    def by_its_end(cls, bytes_):
        head_size, = struct.unpack("<Q", bytes_[-8:])
        return cls(bytes_, len(bytes_) - 8 - head_size)

    def parity_block(self, group, row):
        start = self.head_size + (row * self.groups + group) * self.block
        return self.bytes[start:start + self.block]

    def rebuilt(self, pack, lost):
        """The pack as it was, from what is left of it and the numbers of its lost blocks."""
        padded = pack[:self.size].ljust(self.count * self.block, b"\0")
        blocks = [padded[i * self.block:(i + 1) * self.block] for i in range(self.count)]
        for group in range(self.groups):
            numbers = [j * self.groups + group for j in range(self.k)]
            gone = [j for j, number in enumerate(numbers) if number in lost]
            if not gone:
                continue
            kept = [j for j, number in enumerate(numbers) if number not in lost and number < self.count]
            factor = lambda row, j: INVERSES[(self.k + row) ^ j]
            rows = range(len(gone))
            rests = [combined([1] + [factor(row, j) for j in kept],
                              [self.parity_block(group, row)] + [blocks[numbers[j]] for j in kept], self.block)
                     for row in rows]
            for factors, j in zip(inverted([[factor(row, j) for j in gone] for row in rows]), gone):
                blocks[numbers[j]] = combined(factors, rests, self.block)
        return b"".join(blocks)[:self.size]
