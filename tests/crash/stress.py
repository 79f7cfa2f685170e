#!/usr/bin/env python3
"""Saves, prunes, restores and tags at the same time, many of them killed at random moments: nothing is lost.

    stress.py --ckpt PROGRAM [--full] [--seed N] [--rounds N]

Each round starts a few commands at once on one store, beside them READERS, kills some of them with SIGKILL, and then
looks: every checkpoint whose save ended with 0 restores to the same bytes unless the policy may have removed it, what a
killed save left is whole or absent, `verify --full` is clean, and restored folders hold no half file. Who reads while
others work is told of no damage: a checkpoint that is pruned meanwhile is restored whole or not found. The seed is
printed."""
import argparse
import random
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import trial
from trial import Program, Promise, Report

ROUNDS, ROUNDS_FULL = 20, 1000
KEPT = 3
POLICY = f"last {KEPT}, tagged"
QUOTA_SHARE = 0.2  # of all rounds
KILL_AFTER_MAX_S = 0.05  # about as long as the longest of these commands takes
SCENES = (("save", "save"), ("save", "prune"), ("save", "save", "prune"), ("restore", "prune"),
          ("restore", "save", "prune"), ("prune", "prune", "save"), ("tag", "prune", "save"), ("save", "rm", "prune"),
          ("save tag", "prune", "prune"), ("repack", "save"), ("repack", "prune", "save"), ("repack", "repack", "save"),
          ("repack", "rm", "save"), ("gc", "repack", "save tag"), ("gc", "prune", "save"),
          ("repair", "prune", "save"), ("repair", "rm", "save"), ("repair", "repair", "save tag"))
SCENES_IN_A_QUOTA = (("save", "save"), ("save", "save tag", "prune"), ("save", "repack", "save"))
READERS = ("verify", "log", "restore oldest")
CODES = {"save": {0}, "save tag": {0}, "prune": {0, 8}, "restore": {0}, "restore oldest": {0, 4}, "tag": {0, 4},
         "rm": {0, 2, 4}, "gc": {0, 8}, "repack": {0, 8}, "repair": {0, 8}, "verify": {0}, "log": {0}}


@dataclass
class Job:
    kind: str
    process: object
    wanted: dict  # manifest of what it saves or restores
    out: Path = None
    kill_at: float = None
    id: str = ""


class Stress:
    def __init__(self, ckpt, root, seed):
        self.ckpt, self.root, self.random = ckpt, root, random.Random(seed)
        self.known = {}
        ckpt.must(root, "init", "--keep", POLICY)
        self.training = trial.Training(self.random)
        for _ in range(KEPT + 1):
            path, wanted = self.next_state("first")
            self.known[ckpt.save(root, path)] = wanted

    def next_state(self, place):
        """In a folder of its own, so that saves at the same time do not meet."""
        path = f"{place}/model.safetensors"
        self.training.step(self.root / path)
        return path, trial.manifest_of(self.root, path)

    def start(self, kind, number, order):
        wanted, out = {}, None
        if kind.startswith("save"):
            path, wanted = self.next_state(f"job{number}")
            words = ["--json", "save", path] + (["--tag", "held"] if kind == "save tag" else [])
        elif kind == "prune":
            words = ["prune", "--keep", POLICY, "--yes"]
        elif kind.startswith("restore"):
            id = order[-1 if kind == "restore oldest" else 0]
            out = self.root / f"out{number}"
            wanted = self.known[id]
            words = ["restore", id, "-o", out]
        elif kind == "verify":
            words = ["verify", self.random.choice(("--read", "--full"))]
        elif kind == "log":
            words = ["log"]
        elif kind == "repair":
            words = ["repair", "--yes"]
        elif kind in ("gc", "repack"):
            words = ["gc", "--yes"] + (["--repack"] if kind == "repack" else [])
        elif kind == "tag":
            words = ["tag", "held", self.random.choice(order[:KEPT]), "--yes"]
        else:
            words = ["rm", order[-1], "--yes", "--force"]
        job = Job(kind, self.ckpt.start(self.root, *words), wanted, out)
        if self.random.random() < 0.4:
            job.kill_at = time.monotonic() + self.random.uniform(0, KILL_AFTER_MAX_S)
        return job

    def finish(self, jobs, codes):
        for job in sorted((job for job in jobs if job.kill_at), key=lambda job: job.kill_at):
            time.sleep(max(0, job.kill_at - time.monotonic()))
            job.process.kill()
        faults = []
        for job in jobs:
            out, err = job.process.communicate(timeout=trial.TIMEOUT_S)
            code = job.process.returncode
            if code == 0 and job.kind.startswith("save"):
                job.id = trial.json.loads(out)["id"]
                self.known[job.id] = job.wanted
            if code not in CODES[job.kind] | codes and not (job.kill_at and code == -9):
                faults.append(f"{job.kind}: exit {code}: {err.strip()}")
            if job.out:
                got = trial.without_tmp(trial.manifest(job.out)) if job.out.exists() else {}
                files = {name: what for name, what in got.items() if what[0] == "file"}
                if code == 0 and got != job.wanted:
                    faults.append(f"restore gave {got}")
                elif any(job.wanted.get(name) != what for name, what in files.items()):
                    faults.append(f"a killed restore left {files}")
                shutil.rmtree(job.out, ignore_errors=True)
        return faults

    def round(self):
        order = trial.newest_first(self.root)
        held = (trial.tag_of(self.root, "held") or "").strip()
        quota = self.random.random() < QUOTA_SHARE
        if quota:
            taken = sum(path.stat().st_size for path in (self.root / ".ckpt").rglob("*") if path.is_file())
            self.ckpt.must(self.root, "init", "--quota", str(taken + self.random.randrange(400_000)))
        scene = (*self.random.choice(SCENES_IN_A_QUOTA if quota else SCENES), *READERS)
        if len(order) <= KEPT:  # `rm` shall not take the last one
            scene = tuple("save" if kind == "rm" else kind for kind in scene)
        jobs = [self.start(kind, number, order) for number, kind in enumerate(scene)]
        saves = sum(kind.startswith("save") for kind in scene)
        faults = self.finish(jobs, {5} if quota else set())
        if quota:
            self.ckpt.must(self.root, "init", "--quota", "0")

        # What the policy kept before this round's saves came stays, but for what they pushed out and `rm` took.
        stays = set(order[:max(KEPT - saves, 1)]) if quota or "prune" in scene else set(order)
        stays |= {job.id for job in jobs if job.id}
        if "tag" not in scene and "save tag" not in scene:
            stays.add(held)
        if "rm" in scene:
            stays.discard(order[-1])
        promise = Promise(self.known, removable=set(self.known) - stays,
                          new=[job.wanted for job in jobs if job.kind.startswith("save")], new_max=saves)
        faults += trial.store_faults(self.ckpt, self.root, promise)
        for id in trial.checkpoints(self.root) - set(self.known):
            self.known[id] = trial.restores(self.ckpt, self.root, id, None)
        self.known = {id: wanted for id, wanted in self.known.items() if id in trial.checkpoints(self.root)}
        killed = ["killed " if job.process.returncode == -9 else "" for job in jobs]
        in_a_quota = "in a quota: " if quota else ""
        return in_a_quota + ", ".join(mark + job.kind for mark, job in zip(killed, jobs)), faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000)
    parser.add_argument("--rounds", type=int)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    folder, report, killed = trial.scratch_folder(), Report(), 0
    try:
        root = folder / "store"
        root.mkdir()
        stress = Stress(Program(args.ckpt), root, args.seed)
        for number in range(args.rounds or (ROUNDS_FULL if args.full else ROUNDS)):
            scene, faults = stress.round()
            killed += scene.count("killed")
            report.add(f"round {number} ({scene})", faults)
        report.add("at the end", trial.goes_on(stress.ckpt, root))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{killed} commands killed")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
