#!/usr/bin/env python3
"""However many threads are asked for, save, restore and verify of a long chain of references stay in bounded memory.

    memory.py --ckpt PROGRAM --meter PROGRAM

--meter is peak_memory.c. What each thread needs is most at a chain of references, all of whose coded chunks it reads."""
import argparse
import json
import os
import random
import shutil
import struct
import sys
import tempfile
from pathlib import Path

from trial import Program, Report, memory_faults

FLOATS = (30 << 20) // 4
DEPTH = 4
THREADS = 64  # pool.h, POOL_THREADS_MAX


def weights():
    """Floats around zero: exponents and signs that repeat, and a mantissa that does not."""
    random.seed(1)
    data = bytearray(random.randbytes(4 * FLOATS))
    data[3::4] = bytes(0x3C | byte & 0x80 for byte in random.randbytes(FLOATS))
    return data


def trained(path, data, step):
    """The next checkpoint: the low byte of each float is another one."""
    random.seed(step)
    data[0::4] = random.randbytes(FLOATS)
    header = json.dumps({"w": {"dtype": "F32", "shape": [FLOATS], "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--meter", required=True, type=os.path.abspath)
    args = parser.parse_args()
    ckpt, report = Program(args.ckpt), Report()
    root = Path(tempfile.mkdtemp(prefix="ckpt-memory-")).resolve()  # not in memory
    many = ("-j", str(THREADS))
    try:
        data = weights()
        ckpt.must(root, "init")
        for step in range(DEPTH + 1):
            trained(root / "state.safetensors", data, step)
            words = (*many, "save", "state.safetensors")
            report.add(f"memory of save {step}", memory_faults(ckpt, args.meter, root, *words))
        stored = sum(pack.stat().st_size for pack in (root / ".ckpt/packs").iterdir())
        report.add("chain", [f"{stored} bytes: no deltas"] if stored > 2.5 * len(data) else [])
        for words in (("restore", "latest", "-o", "out"), ("verify", "--full")):
            report.add(f"memory of {words[0]}", memory_faults(ckpt, args.meter, root, *many, *words))
        same = (root / "out/state.safetensors").read_bytes() == (root / "state.safetensors").read_bytes()
        report.add("restored file", [] if same else ["other bytes"])
        trained(root / "state.safetensors", data, DEPTH + 1)
        words = (*many, "save", "--level", "max", "state.safetensors")
        report.add("memory of save --level max", memory_faults(ckpt, args.meter, root, *words))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
