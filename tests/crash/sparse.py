#!/usr/bin/env python3
"""A sparse file of more than 4 GiB: saved, restored sparse, the same bytes, in bounded memory.

    sparse.py --ckpt PROGRAM --meter PROGRAM [--full]

--meter is peak_memory.c; --full takes 8 GiB."""
import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from trial import Program, Report, memory_faults

SIZE, SIZE_FULL = (4 << 30) + (64 << 20), 8 << 30
BLOCK = 64 << 10
ISLANDS = (0, (1 << 30) + 12345, (4 << 30) - 100, (4 << 30) + (60 << 20))  # where bytes stand; one crosses 4 GiB
DISK_USED_MAX = 64 << 20


def island(index):
    return bytes((index * 31 + i * 7 + (i >> 8)) % 251 for i in range(BLOCK))


def make(path, size):
    with open(path, "wb") as file:
        file.truncate(size)
        for index, at in enumerate(ISLANDS):
            file.seek(at)
            file.write(island(index))


def content_faults(path, whole):
    """Walks the data that the file system has; what it has not is zeros by definition."""
    faults = []
    if path.stat().st_size != whole:
        return [f"{path.name} has {path.stat().st_size} bytes"]
    with open(path, "rb") as file:
        for index, at in enumerate(ISLANDS):
            if os.pread(file.fileno(), BLOCK, at) != island(index):
                faults.append(f"other bytes at {at}")
        at = 0
        while at < whole:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            while at < end:
                size = min(end - at, 1 << 20)
                data = os.pread(file.fileno(), size, at)
                if data.count(0) != size and not inside_islands(data, at):
                    faults.append(f"bytes that are not zero in {at}..{at + size}")
                at += size
    return faults


def inside_islands(data, at):
    left = bytearray(data)
    for start in ISLANDS:
        low, high = max(start - at, 0), min(start + BLOCK - at, len(left))
        if low < high:
            left[low:high] = bytes(high - low)
    return left.count(0) == len(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--meter", required=True, type=os.path.abspath)
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    ckpt, report = Program(args.ckpt), Report()
    whole = SIZE_FULL if args.full else SIZE
    root = Path(tempfile.mkdtemp(prefix="ckpt-sparse-")).resolve()  # not in memory
    try:
        make(root / "state.bin", whole)
        ckpt.must(root, "init")
        for words in (("save", "state.bin"), ("restore", "latest", "-o", "out")):
            report.add(f"memory of {words[0]}", memory_faults(ckpt, args.meter, root, *words))
        restored = root / "out/state.bin"
        report.add("restored file", content_faults(restored, whole))
        used = restored.stat().st_blocks * 512
        report.add("sparse", [f"takes {used} bytes of disk"] if used > DISK_USED_MAX else [])
        kept = sum(path.stat().st_size for path in (root / ".ckpt").rglob("*") if path.is_file())
        print(f"the store has {kept} bytes")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
