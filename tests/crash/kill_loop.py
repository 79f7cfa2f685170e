#!/usr/bin/env python3
"""One command after the other on one store, each killed with SIGKILL at a random moment: no committed checkpoint is lost.

    kill_loop.py --ckpt PROGRAM [--background PROGRAM] [--full] [--seed N] [--kills N]

A round runs one of OPERATIONS, which a training and its owner do all day: saves, a prune, a resume. It is killed at a
moment drawn from the time that it takes. Then every checkpoint that was once reported, or once seen in the store,
restores to the same bytes unless the policy or `rm` may have taken it; what the killed one left is whole or absent;
`verify --full` is clean. Now and then a prune that is not killed must leave no temporary file, no intent and no pack
that nothing needs. The seed is printed."""
import argparse
import json
import os
import random
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import trial
from trial import Program, Promise, Report

KILLS, KILLS_FULL = 40, 1000
KEPT = 3
POLICY = f"last {KEPT}, tagged"
CLEAN_EVERY = 10  # rounds
KILL_SPREAD = 1.1  # of the time an operation takes: some come to their end
CACHE_BYTES_MAX = 4 << 20  # many times what the cache of so small a store needs


@dataclass
class Job:
    """What one operation runs, and what may come of it."""
    words: list
    program: str = ""  # instead of ckpt
    new: list = field(default_factory=list)  # manifests of what it saves
    removable: set = field(default_factory=set)
    codes: tuple = (0,)  # it may end with
    out: Path = None  # folder that it restores into
    restored: dict = field(default_factory=dict)  # manifest of what it restores


class Loop:
    def __init__(self, ckpt, root, seed, background):
        self.ckpt, self.root, self.random, self.background = ckpt, root, random.Random(seed), background
        self.training = trial.Training(self.random)
        self.known, self.seconds, self.killed = {}, {}, 0
        self.background_states = self.states_of_background() if background else []
        ckpt.must(root, "init", "--keep", POLICY)
        for kind in ("save", "save folder", "save"):
            faults = self.one(kind, None)
            if faults:
                raise AssertionError(faults)

    def states_of_background(self):
        probe = self.root.parent / "probe"
        probe.mkdir()
        self.ckpt.must(probe, "init")
        self.ckpt.must(probe, program=self.background)
        states = [trial.restores(self.ckpt, probe, id, None) for id in trial.checkpoints(probe)]
        shutil.rmtree(probe)
        return states

    # ---- The operations: what is typed, and what may come of it ----

    def save(self):
        self.training.step(self.root / "model.safetensors")
        return Job(["--json", "save", "model.safetensors"], new=[trial.manifest_of(self.root, "model.safetensors")])

    def save_tag(self):
        job = self.save()
        job.words += ["--tag", "held", "--step", str(self.random.randrange(1000))]
        return job

    def save_folder(self):
        for name in ("model", "optimizer"):
            self.training.step(self.root / "run" / f"{name}.safetensors")
        (self.root / "run" / "empty").mkdir(exist_ok=True)
        (self.root / "run" / "log.txt").write_text("".join(f"step {i}\n" for i in range(self.random.randrange(2000))))
        return Job(["--json", "save", "run"], new=[trial.manifest_of(self.root, "run")])

    def save_background(self):
        return Job([], program=self.background, new=self.background_states)

    def prune(self):
        order, held = trial.newest_first(self.root), (trial.tag_of(self.root, "held") or "").strip()
        return Job(["prune", "--keep", POLICY, "--yes"], removable=set(order[KEPT:]) - {held})

    def resume(self):
        """Over what the last one left."""
        id = self.random.choice(trial.newest_first(self.root))
        out = self.root / "out"
        return Job(["restore", id, "-o", out, "--yes"], out=out, restored=self.known[id])

    def tag(self):
        return Job(["tag", "held", self.random.choice(trial.newest_first(self.root)), "--yes"])

    def rm(self):
        oldest = trial.newest_first(self.root)[-1]
        return Job(["rm", oldest, "--force", "--yes"], removable={oldest})

    def gc(self):
        return Job(["gc", "--yes"])

    def gc_repack(self):
        return Job(["gc", "--repack", "--yes"])

    def save_parity(self):
        job = self.save()
        job.words += ["--parity", "5%"]
        return job

    def repair(self):
        """There is nothing to mend: it reads all, and gives packs parity."""
        return Job(["repair", "--add-parity", "5%", "--yes"])

    def save_quota(self):
        """Fits when the policy makes room, or not at all."""
        job = self.save()
        taken = sum(path.stat().st_size for path in (self.root / ".ckpt").rglob("*") if path.is_file())
        self.ckpt.must(self.root, "init", "--quota", str(taken + self.random.randrange(200_000)))
        job.removable, job.codes = self.prune().removable, (0, 5)
        return job

    def watch(self):
        job = self.save()
        job.words = ["watch", "model.safetensors", "--once", "--settle", "0s"]
        return job

    OPERATIONS = {"save": save, "save --tag": save_tag, "save folder": save_folder, "background": save_background,
                  "prune": prune, "resume": resume, "tag": tag, "rm": rm, "gc": gc, "gc --repack": gc_repack,
                  "save --parity": save_parity, "save in a quota": save_quota, "repair": repair, "watch": watch}

    # ---- Rounds ----

    def one(self, kind, kill_after):
        """Runs an operation, kills it after so many seconds (None: never), and looks what has become of the store."""
        job = self.OPERATIONS[kind](self)
        before = trial.manifest(job.out) if job.out and job.out.exists() else {}
        begin = time.monotonic()
        process = self.ckpt.start(self.root, *job.words, program=job.program or None)
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()  # nothing happens to one that has ended
        out, err = process.communicate(timeout=trial.TIMEOUT_S)
        if process.returncode == -9:
            self.killed += 1
        elif process.returncode not in job.codes:
            return [f"exit {process.returncode}: {err.strip()}"]
        elif kill_after is None:
            self.seconds[kind] = time.monotonic() - begin
        complete = process.returncode == 0 and kind != "save in a quota"  # the policy is applied where it has to be
        self.ckpt.must(self.root, "init", "--quota", "0")
        faults = self.store_faults(job, complete, self.reported(out) if job.new else None)
        if job.out:
            faults += self.restored_faults(job, complete, before)
        return faults

    @staticmethod
    def reported(out):
        """The id that a save printed, perhaps just before it was killed."""
        try:
            return json.loads(out)["id"]
        except ValueError:
            return None

    def store_faults(self, job, complete, reported):
        promise = Promise(self.known, removable=job.removable, new=job.new, new_max=len(job.new))
        faults = trial.store_faults(self.ckpt, self.root, promise, complete)
        present = trial.checkpoints(self.root)
        if reported and reported not in present:
            faults.append(f"the save reported {reported[:8]}, which is not there")
        for id in present - set(self.known):
            self.known[id] = trial.restores(self.ckpt, self.root, id, None)
        self.known = {id: wanted for id, wanted in self.known.items() if id in present}
        return faults

    @staticmethod
    def restored_faults(job, complete, before):
        """Each file is the one that was there or the new one; at the end all are, and where one was written no temporary
        file of an earlier restore is left."""
        whole = trial.manifest(job.out) if job.out.exists() else {}
        got, old = trial.without_tmp(whole), trial.without_tmp(before)
        wanted = {**old, **job.restored}
        faults = []
        for name in sorted(set(got) | set(wanted)):
            allowed = [wanted.get(name)] if complete else [old.get(name), wanted.get(name)]
            if got.get(name) not in allowed:
                faults.append(f"{name} restored as {got.get(name)}")
        written = {str(Path(name).parent) for name, what in job.restored.items()
                   if what[0] == "file" and old.get(name) != what}
        return faults + [f"restore left {name}" for name in sorted(set(whole) - set(got))
                         if complete and str(Path(name).parent) in written]

    def clean_faults(self):
        """A prune that comes to its end leaves nothing that nobody needs."""
        faults = self.one("prune", None)
        left = [f"{folder}/{name}" for folder in ("tmp", "intents") for name in
                os.listdir(self.root / ".ckpt" / folder) if name not in trial.LEASES]
        stats = json.loads(self.ckpt.must(self.root, "--json", "stats"))
        faults += [f"prune left {', '.join(left)}"] if left else []
        faults += [f"{key}: {stats[key]}" for key in ("unreachable_bytes", "leftover_bytes") if stats[key]]
        if stats["cache_bytes"] > CACHE_BYTES_MAX:
            faults.append(f"the cache has {stats['cache_bytes']} bytes")
        return faults

    def round(self):
        kinds = [kind for kind in self.OPERATIONS if kind != "background" or self.background]
        kind = self.random.choice(kinds)
        if kind == "rm" and len(trial.checkpoints(self.root)) <= KEPT:
            kind = "save"
        if kind not in self.seconds:  # once unkilled, to know how long it takes
            return kind, self.one(kind, None)
        return kind, self.one(kind, self.random.uniform(0, KILL_SPREAD * self.seconds[kind]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--background", type=os.path.abspath, help="program that saves through the background writer")
    parser.add_argument("--full", action="store_true", help=f"{KILLS_FULL} kills instead of {KILLS}")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--kills", type=int)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    folder, report = trial.scratch_folder(), Report()
    try:
        root = folder / "store"
        root.mkdir()
        loop = Loop(Program(args.ckpt), root, args.seed, args.background)
        rounds, kills = 0, args.kills or (KILLS_FULL if args.full else KILLS)
        while loop.killed < kills:
            kind, faults = loop.round()
            report.add(f"round {rounds} ({kind})", faults)
            rounds += 1
            if rounds % CLEAN_EVERY == 0:
                report.add(f"prune after round {rounds}", loop.clean_faults())
        report.add("at the end", trial.goes_on(loop.ckpt, root))
        print(f"{loop.killed} of {rounds} operations killed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
