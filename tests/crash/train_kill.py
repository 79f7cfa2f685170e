#!/usr/bin/env python3
"""A training killed at random moments ends with the bytes of one that was never stopped.

    train_kill.py --ckpt PROGRAM [--full] [--seed N] [--kills N]

A twin trains to the end. Then the same training is begun, killed with SIGKILL at a random moment, resumed, killed again,
and so on until it comes to its end, where its state must be the twin's, byte for byte; then another one is begun, until
there were enough kills. On the way resumes get another number of threads and another instruction set by the environment:
the recorded ones are taken again. Where that is impossible, the first line must say so. The seed is printed."""
import argparse
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from trial import Program, Report, scratch_folder

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "golden" / "fashion-2000"
KILLS, KILLS_FULL = 50, 500
KILL_AFTER_MIN_S = 0.03
RECIPE = """
[run]
name = killed
epochs = 2
[data]
batch = 100
[net]
layers = conv 4 5x5, relu, maxpool 4, flatten, dense 10
[checkpoint]
every = 3
prune = 4
"""


class Killer:
    def __init__(self, ckpt, root, seed):
        self.ckpt, self.root, self.random = ckpt, root, random.Random(seed)
        self.kills = self.ends = self.stores = 0
        (root / "killed.ini").write_text(RECIPE)
        begin = time.monotonic()
        self.twin = self.end_state(self.train_through(self.new_store(), {}))
        self.seconds = time.monotonic() - begin

    def new_store(self):
        self.stores += 1
        store = self.root / f"store{self.stores}"
        self.ckpt.must(self.root, "init", "-q", store)
        return store

    def words(self, store):
        """Begins the training where the store has none, and else goes on with it."""
        return "-s", store, "resume", "killed.ini", "--data", DATA

    def train_through(self, store, env):
        self.ckpt.must(self.root, *self.words(store), env=env)
        return store

    def end_state(self, store):
        out = Path(f"{store}.out")
        self.ckpt.must(self.root, "-s", store, "restore", "killed-final", "-q", "-o", out)
        self.ckpt.must(self.root, "-s", store, "verify", "--full", "-q")
        state = (out / "killed" / "state.safetensors").read_bytes()
        shutil.rmtree(out)
        return state

    def start(self, store):
        """Once the threads are recorded, any number may be offered."""
        begun = any((store / ".ckpt" / "snapshots").iterdir())
        env = {"CKPT_THREADS": self.random.choice("123")} if begun else None
        return self.ckpt.start(self.root, *self.words(store), env=env)

    def kill_until_it_ends(self, kills_max):
        """Whether the end was that of the twin."""
        store = self.new_store()
        while True:
            process = self.start(store)
            if self.kills < kills_max:
                time.sleep(self.random.uniform(KILL_AFTER_MIN_S, self.seconds / 2))
                process.kill()  # nothing happens to one that has ended
            out, err = process.communicate()
            if "equivalent" in out:
                raise AssertionError(f"not identical: {out}")
            if process.returncode != -signal.SIGKILL:
                break
            self.kills += 1
        if process.returncode != 0:
            raise AssertionError(f"exit {process.returncode}: {err}{out}")
        self.ends += 1
        same = self.end_state(store) == self.twin
        shutil.rmtree(store)
        return same


def first_line(out):
    return out.split("\n", 1)[0]


def instruction_sets(killer):
    """Faults of runs that meet another instruction set."""
    faults = []
    store = killer.new_store()
    words = killer.words(store)
    widest = first_line(killer.ckpt.must(killer.root, *words, "--steps", 7)).rsplit(", ", 1)[-1]
    line = first_line(killer.ckpt.must(killer.root, *words, "--steps", 9, env={"CKPT_CPU": "avx2"}))
    print(f"begun with {widest}, resumed where there is avx2 at most: {line}")
    if widest.startswith("avx512") and f"(equivalent: instruction set avx2 instead of {widest})" not in line:
        faults.append(f"a lost instruction set is not named: {line}")
    if not widest.startswith("avx512"):
        print("skipped: this CPU has no AVX-512, so no narrower machine was played")
        return faults
    narrow = {"CKPT_CPU": "avx2"}
    twin = killer.end_state(killer.train_through(killer.new_store(), narrow))
    store = killer.new_store()
    killer.ckpt.must(killer.root, *killer.words(store), "--steps", 27, env=narrow)
    line = first_line(killer.ckpt.must(killer.root, *killer.words(store), "--steps", 0))
    if "(identical)" not in line or killer.end_state(store) != twin:
        faults.append(f"the recorded instruction set is not taken again: {line}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--full", action="store_true", help=f"{KILLS_FULL} kills instead of {KILLS}")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args()
    kills = args.kills or (KILLS_FULL if args.full else KILLS)
    print(f"seed {args.seed}")
    report = Report()
    root = scratch_folder()
    try:
        killer = Killer(Program(args.ckpt), root, args.seed)
        while killer.kills < kills:
            same = killer.kill_until_it_ends(kills)
            report.add(f"training {killer.ends}", [] if same else ["its last state is not the twin's"])
        print(f"{killer.kills} kills, {killer.ends} trainings that came to their end, a whole one in {killer.seconds:.1f} s")
        report.add("instruction sets", instruction_sets(killer))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
