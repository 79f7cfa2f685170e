#!/usr/bin/env python3
"""Two hosts share a folder, with clocks that are a day apart and locks that do not reach the other: nothing is lost.

    hosts.py --ckpt PROGRAM --host-shim LIBRARY [--full]

Each host is a process under host_shim.c, which has its own name, wall clock, times of files, and monotonic clock. Host
A saves while host B prunes, saves and tags; A is killed, and B must find out by its own monotonic clock alone. --full
tries it at more moments of a save."""
import argparse
import concurrent.futures
import itertools
import os
import random
import shutil
import sys
import time
from pathlib import Path

import trial
from trial import Program, Promise, Report

DAY_S = 24 * 60 * 60
CLOCKS = {"a day behind": -DAY_S, "the same": 0, "a day ahead": DAY_S, "eight days ahead": 8 * DAY_S}
RATE = 4  # of the monotonic clocks: what is dead for 20 s is so for 5 s
SYNC_MS = 300  # a save takes long enough for others to come in between
MOMENTS, MOMENTS_FULL = (0.6, 1.6), (0.1, 0.4, 0.8, 1.2, 1.6, 2.0)  # seconds after A has begun

AT_ONCE = 8


class Hosts:
    def __init__(self, path, shim, root, ahead_s):
        shared = {"LD_PRELOAD": shim, "CKPT_HOST_ROOT": str(root), "CKPT_HOST_RATE": str(RATE)}
        self.root, self.plain, self.random = root, Program(path), random.Random(1)
        self.a = Program(path, {**shared, "CKPT_HOST_NAME": "a", "CKPT_HOST_SYNC_MS": str(SYNC_MS)})
        self.b = Program(path, {**shared, "CKPT_HOST_NAME": "b", "CKPT_HOST_AHEAD_S": str(ahead_s)})
        self.training = trial.Training(self.random)
        self.plain.must(root, "init")
        self.known = {}
        for _ in range(3):
            id = self.plain.save(root, self.next("first"))
            self.known[id] = trial.manifest_of(root, "first")

    def next(self, place):
        """The folder with the next state."""
        self.training.step(self.root / place / "model.safetensors")
        return place

    def start_save(self, *more):
        """On A. The bytes are like those of a checkpoint that B may remove."""
        path = self.next("from-a")
        return self.a.start(self.root, "--json", "save", path, *more), trial.manifest_of(self.root, path)

    def saved(self, process, wanted):
        """What A's save has come to."""
        out, err = process.communicate(timeout=trial.TIMEOUT_S)
        if process.returncode != 0:
            return [f"save on A: exit {process.returncode}: {err.strip()}"]
        self.known[trial.json.loads(out)["id"]] = wanted
        return []

    def on_b(self, *words, codes=(0,)):
        done = self.b.run(self.root, *words)
        return [] if done.code in codes else [f"{words[0]} on B: {done}"]

    def end(self, removable=()):
        """Both hosts are at rest."""
        faults = trial.store_faults(self.plain, self.root, Promise(self.known, removable=set(removable), new_max=0))
        self.known = {id: wanted for id, wanted in self.known.items() if id in trial.checkpoints(self.root)}
        return faults


# ---- What happens on the two hosts ----


def prune_while_saving(hosts, moment):
    """B removes all but the newest while A makes a delta of one that goes."""
    old = set(hosts.known)
    process, wanted = hosts.start_save()
    time.sleep(moment)
    faults = hosts.on_b("prune", "--keep", "last 1", "--yes", codes=(0, 8))
    return faults + hosts.saved(process, wanted) + hosts.end(removable=old)


def save_while_saving(hosts, moment):
    """What B finds in tmp/ looks old by its clock, but is A's."""
    process, wanted = hosts.start_save("--tag", "mine")
    time.sleep(moment)
    path = hosts.next("from-b")
    done = hosts.b.run(hosts.root, "--json", "save", path, "--tag", "mine")
    faults = [] if done.code == 0 else [f"save on B: {done}"]
    if done.code == 0:
        hosts.known[trial.json.loads(done.out)["id"]] = trial.manifest_of(hosts.root, path)
    faults += hosts.saved(process, wanted) + hosts.end()
    tag = (trial.tag_of(hosts.root, "mine") or "").strip()
    return faults + ([] if tag in hosts.known else [f"the tag names {tag!r}"])


def prune_of_same_bytes(hosts, moment):
    """A saves again what only a removed checkpoint has."""
    id, wanted = next(iter(hosts.known.items()))
    hosts.plain.must(hosts.root, "restore", id, "-o", ".", "--yes")
    hosts.plain.must(hosts.root, "rm", id, "--yes")
    process = hosts.a.start(hosts.root, "--json", "save", "first")
    time.sleep(moment)
    faults = hosts.on_b("prune", "--keep", "last 2", "--yes", codes=(0, 8))
    old = set(hosts.known)
    return faults + hosts.saved(process, wanted) + hosts.end(removable=old)


def killed_save(hosts, moment):
    """Touched to look fresh or old, what a dead A left goes by B's monotonic clock."""
    process, wanted = hosts.start_save()
    time.sleep(moment)
    process.kill()
    process.communicate()
    by_wall_clock = time.time() + hosts.random.choice((-1, 1)) * DAY_S
    for folder in ("intents", "tmp"):
        for path in (hosts.root / ".ckpt" / folder).iterdir():
            os.utime(path, (by_wall_clock, by_wall_clock))
    for id in trial.checkpoints(hosts.root) - set(hosts.known):  # the kill came late
        hosts.known[id] = wanted
    faults = hosts.on_b("prune", "--keep", "last 100", "--yes")
    left = os.listdir(hosts.root / ".ckpt/intents") + os.listdir(hosts.root / ".ckpt/tmp")
    return faults + hosts.end() + ([f"prune on B left {left}"] if left else [])


def repack_while_saving(hosts, moment):
    """B moves the bytes of what A makes a delta of, and looks for what has to be mended."""
    hosts.plain.must(hosts.root, "rm", next(iter(hosts.known)), "--yes")
    hosts.known.pop(next(iter(hosts.known)))
    process, wanted = hosts.start_save()
    time.sleep(moment)
    faults = hosts.on_b("gc", "--repack", "--yes", codes=(0, 8)) + hosts.on_b("repair", "--yes", codes=(0, 8))
    return faults + hosts.saved(process, wanted) + hosts.end()


def order_of_saves(hosts, _):
    """What was saved last is the latest, whatever its clock said."""
    faults = []
    for host in (hosts.b, hosts.a, hosts.b):
        id = host.save(hosts.root, hosts.next("from-b"))
        hosts.known[id] = trial.manifest_of(hosts.root, "from-b")
        for other in (hosts.a, hosts.b):
            shown = trial.json.loads(other.must(hosts.root, "--json", "show", "latest"))["id"]
            faults += [] if shown == id else [f"latest is {shown[:8]} instead of {id[:8]}"]
    return faults + hosts.end()


SCENES = {"prune while the other saves": prune_while_saving, "save while the other saves": save_while_saving,
          "prune of bytes that the other saves": prune_of_same_bytes, "killed save": killed_save,
          "repack and repair while the other saves": repack_while_saving,
          "order of saves": order_of_saves}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--host-shim", required=True, type=os.path.abspath)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", help="one scene")
    args = parser.parse_args()
    folder, report = trial.scratch_folder(), Report()

    def trial_of(clock, scene, moment):
        root = folder / f"{scene} {clock} {moment}".replace(" ", "-")
        root.mkdir()
        return (f"{scene}, {moment} s in, B's clock {clock}",
                SCENES[scene](Hosts(args.ckpt, args.host_shim, root, CLOCKS[clock]), moment))

    trials = itertools.product(CLOCKS, [scene for scene in SCENES if args.only in (None, scene)],
                             MOMENTS_FULL if args.full else MOMENTS)
    try:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:  # they wait, most of the time
            for done in [pool.submit(trial_of, *each) for each in trials]:
                report.add(*done.result())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
