#!/usr/bin/env python3
"""A watch beside programs that overwrite their files again and again, killed now and then: what it saved is whole.

    watch_writer.py --ckpt PROGRAM [--seconds N]

Three writers: one overwrites one path in place, in pieces; one writes a temporary file and renames it; one makes a folder
of two files that belong together. Each state tells by itself whether it is one. The watch is killed with SIGKILL and
begun again. Every checkpoint must hold a state that a writer had finished; every folder, and the last state of each path, must have
been saved."""
import argparse
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

import trial
from trial import Program, Report

SECONDS = 8
SIZE = 1 << 20
PIECES = 8
PAUSE_S = 0.12  # between two states; a save is slower than that now and then


def state(number, size=SIZE):
    """Safetensors of one tensor, all of which follows from its number."""
    header = json.dumps({"w": {"dtype": "I64", "shape": [size // 8], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<q", number) * (size // 8)


def number_of(data):
    """None when it is no whole state."""
    if len(data) < 8:
        return None
    number = struct.unpack("<q", data[-8:])[0]
    return number if data == state(number) else None


class Writer(threading.Thread):
    def __init__(self, root):
        super().__init__(daemon=True)
        self.root, self.stop, self.finished = root, threading.Event(), 0

    def run(self):
        number = 0
        while not self.stop.wait(PAUSE_S):
            number += 1
            self.write(number)
            self.finished = number


class InPlace(Writer):
    """As a program does that knows nothing of files: one path, overwritten."""
    pattern = "in_place.safetensors"

    def write(self, number):
        data = state(number)
        with open(self.root / self.pattern, "r+b" if number > 1 else "wb", buffering=0) as file:
            for i in range(PIECES):
                file.write(data[i * len(data) // PIECES:(i + 1) * len(data) // PIECES])
                time.sleep(0.002)

    @staticmethod
    def numbers(files):
        return [number_of(files.get("in_place.safetensors", b""))]


class Renaming(Writer):
    pattern = "renamed.safetensors"

    def write(self, number):
        (self.root / "renamed.tmp").write_bytes(state(number))
        (self.root / "renamed.tmp").rename(self.root / self.pattern)

    @staticmethod
    def numbers(files):
        return [number_of(files.get("renamed.safetensors", b""))]


class Folders(Writer):
    """A new folder for each state, as trainers make them."""
    pattern = "runs/checkpoint-*"

    def write(self, number):
        folder = self.root / "runs" / f"checkpoint-{number}"
        folder.mkdir(parents=True)
        for name in ("model.safetensors", "optimizer.safetensors"):
            (folder / name).write_bytes(state(number))
            time.sleep(0.005)
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": number}))

    @staticmethod
    def numbers(files):
        found = [number_of(data) for name, data in files.items() if name.endswith(".safetensors")]
        return found if len(found) == 2 and len(set(found)) == 1 else [None]


def saved(ckpt, root, id):
    """{path: bytes} of a checkpoint."""
    with tempfile.TemporaryDirectory(dir=root.parent) as out:
        ckpt.must(root, "restore", id, "-o", out)
        return {str(path.relative_to(out)): path.read_bytes() for path in Path(out).rglob("*") if path.is_file()}


def watch_for(ckpt, root, writers, seconds, killed):
    process = ckpt.start(root, "watch", *(writer.pattern for writer in writers), "--every", "1s", "--settle", "1s",
                         env={"XDG_STATE_HOME": str(root.parent / "state")})
    time.sleep(seconds)
    process.kill() if killed else process.terminate()
    out, err = process.communicate(timeout=trial.TIMEOUT_S)
    return [] if killed or process.returncode == 0 else [f"watch: exit {process.returncode}: {err.strip()}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    args = parser.parse_args()
    ckpt, report, folder = Program(args.ckpt), Report(), trial.scratch_folder()
    root = folder / "work"
    try:
        root.mkdir()
        ckpt.must(root, "init")
        writers = [kind(root) for kind in (InPlace, Renaming, Folders)]
        for writer in writers:
            writer.start()
        end = time.monotonic() + args.seconds
        while time.monotonic() < end:
            report.add("killed watch", watch_for(ckpt, root, writers, random.uniform(0.2, 1.5), True))
        for writer in writers:
            writer.stop.set()
            writer.join()
        report.add("last watch", watch_for(ckpt, root, writers, 3, False))
        found = {writer: [] for writer in writers}
        for id in trial.newest_first(root):
            files = saved(ckpt, root, id)
            (writer,) = [writer for writer in writers if any(name.startswith(writer.pattern.split("*")[0])
                                                              for name in files)]
            numbers = writer.numbers(files)
            found[writer] += numbers[:1]
            whole = None not in numbers and 0 < numbers[0] <= writer.finished
            report.add(f"checkpoint {id[:8]} of {writer.pattern}", [] if whole else [f"holds {sorted(files)}: {numbers}"])
        for writer, numbers in found.items():
            print(f"{writer.pattern}: {writer.finished} states, {len(numbers)} checkpoints")
            report.add(writer.pattern, [] if writer.finished in numbers else ["the last state was never saved"])
        missed = set(range(1, writers[-1].finished + 1)) - set(found[writers[-1]])
        report.add("folders", [f"{sorted(missed)} were never saved"] if missed else [])
        report.add("at the end", trial.goes_on(ckpt, root))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
