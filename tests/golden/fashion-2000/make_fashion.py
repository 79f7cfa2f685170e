#!/usr/bin/env python3
"""Cuts small data sets out of Fashion-MNIST, and tells their digests as core/dataset.h defines them.

make_fashion.py [SOURCE]    SOURCE: the folder of Debian's package dataset-fashion-mnist; needs numpy

fashion-2000/   the first 2,000 training and 500 test samples, four .gz IDX files and `digest`
fashion-20/     the first 20 and 10: four plain IDX files; .npz by NumPy; `digest`
"""
import gzip
import hashlib
import struct
import sys
from pathlib import Path

import numpy

GOLDEN = Path(__file__).resolve().parent.parent
SIDE = 28


def samples(source, name, count):
    """Images [count][28][28] and labels [count] of a part."""
    images = gzip.decompress((source / f"{name}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((source / f"{name}-labels-idx1-ubyte.gz").read_bytes())
    return (numpy.frombuffer(images, "u1", count * SIDE * SIDE, 16).reshape(count, SIDE, SIDE),
            numpy.frombuffer(labels, "u1", count, 8))


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def digest(train, test):
    data = struct.pack("<5Q", 1, SIDE, SIDE, len(train[0]), len(test[0]))
    return hashlib.sha256(data + b"".join(array.tobytes() for array in (*train, *test))).hexdigest()


def write_folder(folder, train, test, packed):
    folder.mkdir(exist_ok=True)
    for name, (images, labels) in (("train", train), ("t10k", test)):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            data = idx(array)
            if packed:
                data = gzip.compress(data, 9, mtime=0)
            (folder / f"{name}-{kind}-ubyte{'.gz' if packed else ''}").write_bytes(data)
    (folder / "digest").write_text(digest(train, test) + "\n")


def main():
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")
    train, test = samples(source, "train", 2000), samples(source, "t10k", 500)
    write_folder(GOLDEN / "fashion-2000", train, test, True)

    train, test = samples(source, "train", 20), samples(source, "t10k", 10)
    folder = GOLDEN / "fashion-20"
    write_folder(folder, train, test, False)
    arrays = {"x_train": train[0], "y_train": train[1], "x_test": test[0], "y_test": test[1]}
    numpy.savez(folder / "stored.npz", **arrays)
    numpy.savez_compressed(folder / "compressed.npz", **arrays)
    as_type = {name: array.astype("i8") if name[0] == "y" else array for name, array in arrays.items()}
    numpy.savez_compressed(folder / "labels_i8.npz", **as_type)
    as_type = {name: array.astype(">i2") if name[0] == "y" else array for name, array in arrays.items()}
    numpy.savez_compressed(folder / "labels_big_endian.npz", **as_type)
    numpy.savez_compressed(folder / "fortran.npz", **arrays | {"x_test": numpy.asfortranarray(test[0])})


if __name__ == "__main__":
    main()
