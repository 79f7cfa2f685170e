#!/usr/bin/env python3
"""Stops ckpt at every call with which it changes files, or lets that call fail, and looks whether anything was lost.

    sweep.py --ckpt PROGRAM --shim LIBRARY [--background PROGRAM] [--full] [--only OPERATION[,MODE]] [--jobs N]

For each operation and each N the store is copied, the operation runs under the shim (shim.c) until its N-th call, and
then: the store opens, `verify --full` is clean, every checkpoint committed before restores to the same bytes, nothing
half stands under a final name, the next save works, and prune removes what is left in tmp/ and intents/. A call that
fails makes the exit status that is documented, or none of it is seen because it was tried again.

Without --full, `kill` is tried at every call of save, prune, tag, repack and the background writer, ENOSPC at those of
save, prune and tag, and all else at every SAMPLE_STEP-th, and in the course of an operation with many calls further apart.
"""
import argparse
import json
import multiprocessing
import os
import random
import shutil
import sys
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import trial
from trial import GOLDEN, Promise, Program, Report

KILL, NO_SPACE, FULL_DISK, IO_ERROR, INTERRUPTED, SHORT, DROP, TORN = MODES = (
    "kill", "fail:ENOSPC", "fail-from:ENOSPC", "fail:EIO", "fail:EINTR", "short", "drop", "torn")
EXIT_OF = {NO_SPACE: {0, 5}, FULL_DISK: {0, 5}, IO_ERROR: {0, 10}, INTERRUPTED: {0}, SHORT: {0}}
EACH = (KILL, NO_SPACE)  # the modes that are tried at every call of what matters most
DEADLY = (KILL, DROP, TORN)
# Calls whose failure may end in success: what is only a hint, what is derived, what clears up, what is there already.
IGNORABLE_CALLS = ("unlink", "sync_file_range", "mkdir")
IGNORABLE_FOLDERS = (".ckpt/cache", ".ckpt/intents")
SAMPLE_STEP = 9
SAMPLES_OF_A_STEP = 12
CALLS_OF_A_STEP = 200  # also where every call is tried
CALLS_MAX = 2000
DEAD_PID = 4194305  # above the largest that Linux gives


@dataclass
class Plan:
    """An operation on a store that stands ready."""
    name: str
    words: list
    promise: Promise
    thorough: tuple = ()  # modes that are tried at every call in a quick run too
    check: str = ""  # name of a further check, CHECKS
    facts: dict = field(default_factory=dict)
    program: str = ""  # instead of ckpt
    makes_room: bool = False  # where there is no space
    slow: bool = False  # only in a full run
    again: bool = False  # the promise holds once the same command has come to its end


# ---- The operations: each makes a folder ready and says what is to hold of it ----


def put(root, source, name):
    shutil.copyfile(GOLDEN / source, root / name)


def first_store(ckpt, root):
    """A store with one checkpoint, and a second state to save."""
    ckpt.must(root, "init")
    put(root, "model_epoch_1.safetensors", "model.safetensors")
    old = {ckpt.save(root, "model.safetensors"): trial.manifest_of(root, "model.safetensors")}
    put(root, "model_epoch_2.safetensors", "model.safetensors")
    return old, trial.manifest_of(root, "model.safetensors")


def two_checkpoints(ckpt, root):
    old, new = first_store(ckpt, root)
    return {**old, ckpt.save(root, "model.safetensors"): new}


def op_init(ckpt, root):
    return Plan("init", ["init"], Promise({}), check="init")


def op_save_first(ckpt, root):
    ckpt.must(root, "init")
    put(root, "model_epoch_1.safetensors", "model.safetensors")
    return Plan("save first", ["save", "model.safetensors"],
                Promise({}, new=[trial.manifest_of(root, "model.safetensors")]), thorough=EACH)


def op_save_delta(ckpt, root):
    old, new = first_store(ckpt, root)
    return Plan("save delta", ["save", "model.safetensors"], Promise(old, new=[new]), thorough=EACH)


def op_save_tag(ckpt, root):
    old, new = first_store(ckpt, root)
    ckpt.must(root, "tag", "mine", "latest")
    return Plan("save --tag", ["save", "model.safetensors", "--tag", "mine", "--step", "7"], Promise(old, new=[new]),
                thorough=EACH, check="save_tag", facts={"old": next(iter(old))})


def op_save_folder(ckpt, root):
    """Several large files make several packs; what is small, linked or empty comes along."""
    old, _ = first_store(ckpt, root)
    run = root / "run"
    (run / "empty").mkdir(parents=True)
    for epoch in (1, 2, 3):
        put(run, f"checkpoint_epoch_{epoch}.pt", f"epoch_{epoch}.pt")
    (run / "notes.txt").write_text("lr 0.1\n")
    (run / "last.pt").symlink_to("epoch_3.pt")
    return Plan("save folder", ["save", "run"], Promise(old, new=[trial.manifest_of(root, "run")]), thorough=EACH)


def restore_source(ckpt, root):
    ckpt.must(root, "init")
    (root / "run/sub").mkdir(parents=True)
    put(root, "model_epoch_1.safetensors", "run/model.safetensors")
    put(root, "model_epoch_2.safetensors", "run/sub/other.safetensors")
    (root / "run/last").symlink_to("model.safetensors")
    (root / "run/empty").touch()
    return {ckpt.save(root, "run"): trial.manifest_of(root, "run")}


def op_restore_new(ckpt, root):
    old = restore_source(ckpt, root)
    return Plan("restore", ["restore", "latest", "-o", "out/deep"], Promise(old), check="restore",
                facts={"out": "out/deep", "old": {}, "new": next(iter(old.values()))})


def op_restore_over(ckpt, root):
    old = restore_source(ckpt, root)
    out = root / "out"
    shutil.copytree(root / "run", out / "run", symlinks=True)
    put(out, "model_epoch_3.safetensors", "run/model.safetensors")
    (out / "run/sub/other.safetensors").write_text("something else")
    (out / "run/last").unlink()
    (out / "run/last").symlink_to("empty")
    (out / "run/mine.txt").write_text("not part of the checkpoint")
    return Plan("restore --yes", ["restore", "latest", "-o", "out", "--yes"], Promise(old), check="restore",
                facts={"out": "out", "old": trial.manifest(out), "new": next(iter(old.values()))})


def op_tag_set(ckpt, root):
    old = two_checkpoints(ckpt, root)
    last = list(old)[1]
    return Plan("tag set", ["tag", "mine", last], Promise(old), thorough=EACH, check="tag",
                facts={"old": None, "new": last + "\n"})


def op_tag_move(ckpt, root):
    old = two_checkpoints(ckpt, root)
    first, last = old
    ckpt.must(root, "tag", "mine", first)
    return Plan("tag move", ["tag", "mine", last, "--yes"], Promise(old), thorough=EACH, check="tag",
                facts={"old": first + "\n", "new": last + "\n"})


def op_tag_remove(ckpt, root):
    old = two_checkpoints(ckpt, root)
    first = next(iter(old))
    ckpt.must(root, "tag", "mine", first)
    return Plan("tag --delete", ["tag", "--delete", "mine"], Promise(old), thorough=EACH, check="tag",
                facts={"old": first + "\n", "new": None})


def op_rm(ckpt, root):
    old = two_checkpoints(ckpt, root)
    first = next(iter(old))
    ckpt.must(root, "tag", "mine", first)
    return Plan("rm", ["rm", first, "--force", "--yes"], Promise(old, removable={first}))


def op_prune(ckpt, root):
    """One checkpoint was removed by hand, one goes by the policy with a pack that no other needs, and crashes have left
    things behind."""
    ckpt.must(root, "init")
    old = {}
    put(root, "model_epoch_1.safetensors", "model.safetensors")
    by_hand = ckpt.save(root, "model.safetensors")
    (root / "alone.bin").write_bytes(random.Random(1).randbytes(50000))
    by_policy = ckpt.save(root, "alone.bin")
    old[by_policy] = trial.manifest_of(root, "alone.bin")
    for epoch in (2, 3):
        put(root, f"model_epoch_{epoch}.safetensors", "model.safetensors")
        old[ckpt.save(root, "model.safetensors")] = trial.manifest_of(root, "model.safetensors")
    ckpt.must(root, "rm", by_hand, "--yes")
    (root / f".ckpt/tmp/pack.{DEAD_PID}.0123456789abcdef.tmp").write_bytes(b"half a pack" * 1000)
    (root / ".ckpt/intents/0123456789abcdef.lease").touch()
    (root / ".ckpt/intents/0123456789abcdef.packs").write_text("00" * 32 + "\n")
    return Plan("prune", ["prune", "--keep", "last 2", "--yes"], Promise(old, removable={by_policy}), thorough=EACH,
                check="prune")


def op_gc(ckpt, root):
    """What is left of a checkpoint that was removed, and of crashes."""
    old = two_checkpoints(ckpt, root)
    (root / "alone.bin").write_bytes(random.Random(1).randbytes(50000))
    ckpt.must(root, "rm", ckpt.save(root, "alone.bin"), "--yes")
    (root / f".ckpt/tmp/pack.{DEAD_PID}.0123456789abcdef.tmp").write_bytes(b"half a pack" * 1000)
    return Plan("gc", ["gc", "--yes"], Promise(old), check="prune")


def op_gc_repack(ckpt, root):
    """What stays is stored as a difference from what is gone."""
    old, new = first_store(ckpt, root)
    second = ckpt.save(root, "model.safetensors", "--tag", "mine")
    ckpt.must(root, "rm", next(iter(old)), "--yes")
    return Plan("gc --repack", ["gc", "--repack", "--yes"], Promise({second: new}), thorough=(KILL,), check="repack")


def op_gc_repack_folder(ckpt, root):
    """The same with a pack for each large file."""
    ckpt.must(root, "init")
    (root / "run").mkdir()
    ids = []
    for step in (1, 2):
        for number in (0, 1):
            put(root, f"checkpoint_epoch_{number + step}.pt", f"run/{number}.pt")
        put(root, f"model_epoch_{step}.safetensors", "run/model.safetensors")
        ids.append(ckpt.save(root, "run"))
    ckpt.must(root, "rm", ids[0], "--yes")
    return Plan("gc --repack folder", ["gc", "--repack", "--yes"], Promise({ids[1]: trial.manifest_of(root, "run")}),
                check="repack", slow=True)


def damaged_store(ckpt, root):
    """The pack of the first of two checkpoints, which the second is a difference from, has lost some bytes."""
    ckpt.must(root, "init", "--parity", "20%")
    put(root, "model_epoch_1.safetensors", "model.safetensors")
    first = ckpt.save(root, "model.safetensors")
    old = {first: trial.manifest_of(root, "model.safetensors")}
    (root / "alone.bin").write_bytes(random.Random(1).randbytes(50000))
    old[ckpt.save(root, "alone.bin")] = trial.manifest_of(root, "alone.bin")
    put(root, "model_epoch_2.safetensors", "model.safetensors")
    old[ckpt.save(root, "model.safetensors")] = trial.manifest_of(root, "model.safetensors")
    (snapshot,) = (root / ".ckpt/snapshots").glob(f"*-{first}.json")
    pack = root / ".ckpt/packs" / (json.loads(snapshot.read_text())["data"]["pack"] + ".pack")
    pack.chmod(0o644)
    with open(pack, "r+b") as file:
        file.seek(pack.stat().st_size // 2)
        file.write(b"damage" * 20)
    return old


def op_repair(ckpt, root):
    old = damaged_store(ckpt, root)
    return Plan("repair", ["repair", "--yes"], Promise(old), again=True)


def op_repair_from(ckpt, root):
    """A pack is gone and another one is cut off, and a copy of the store has them."""
    old = two_checkpoints(ckpt, root)
    shutil.copytree(root / ".ckpt", root / "copy/.ckpt")
    gone, cut = (root / ".ckpt/packs").iterdir()
    gone.unlink()
    os.truncate(cut, cut.stat().st_size // 2)
    return Plan("repair --from", ["repair", "--from", "copy", "--yes"], Promise(old), again=True)


def op_save_parity(ckpt, root):
    old, new = first_store(ckpt, root)
    return Plan("save --parity", ["save", "model.safetensors", "--parity", "5%"], Promise(old, new=[new]))


def op_save_quota(ckpt, root):
    """The policy has to make room before the save fits."""
    ckpt.must(root, "init", "--keep", "last 1, tagged")
    old = {}
    for number in (1, 2, 3):
        (root / "data.bin").write_bytes(random.Random(number).randbytes(40000))
        old[ckpt.save(root, "data.bin", *(["--tag", "mine"] if number == 1 else []))] = trial.manifest_of(root, "data.bin")
    (root / "data.bin").write_bytes(random.Random(4).randbytes(40000))
    ckpt.must(root, "init", "--quota", "140k")
    return Plan("save in a quota", ["save", "data.bin"],
                Promise(old, removable={list(old)[1]}, new=[trial.manifest_of(root, "data.bin")]), check="quota",
                makes_room=True)


def op_watch(ckpt, root):
    old, new = first_store(ckpt, root)
    return Plan("watch", ["watch", "model.safetensors", "--once", "--settle", "0s"], Promise(old, new=[new]))


def op_export(ckpt, root):
    old, _ = first_store(ckpt, root)
    words = ["export", "--to", "pt", "-o", "out/model.pt", "--yes"]
    (root / "out").mkdir()
    ckpt.must(root, *words)
    new = (root / "out/model.pt").read_bytes()
    (root / "out/model.pt").write_text("something else")
    return Plan("export", words, Promise(old), check="export", facts={"old": b"something else", "new": new})


def op_export_bundle(ckpt, root):
    old = two_checkpoints(ckpt, root)
    (root / "out").mkdir()
    return Plan("export bundle", ["export", "--to", "bundle", "-o", "out/one.zip", "--yes"], Promise(old),
                check="bundle")


def op_import(ckpt, root):
    """A bundle of a checkpoint in two packs, which another store made."""
    other = root / "other"
    other.mkdir()
    two_checkpoints(ckpt, other)
    ckpt.must(other, "export", "--to", "bundle", "-o", root / "one.zip")
    new = trial.manifest_of(other, "model.safetensors")
    shutil.rmtree(other)
    ckpt.must(root, "init")
    put(root, "model_epoch_3.safetensors", "model.safetensors")
    old = {ckpt.save(root, "model.safetensors"): trial.manifest_of(root, "model.safetensors")}
    return Plan("import", ["import", "one.zip"], Promise(old, new=[new]), thorough=EACH)


def op_background(ckpt, root, program):
    """The background writer of the library saves two states."""
    ckpt.must(root, "init")
    probe = root.parent / "probe"
    shutil.copytree(root, probe, symlinks=True)
    done = ckpt.run(probe, program=program)
    if done.code != 0:
        raise AssertionError(f"background writer: {done}")
    states = [trial.restores(ckpt, probe, id, None) for id in trial.checkpoints(probe)]
    shutil.rmtree(probe)
    return Plan("background writer", [], Promise({}, new=states, new_max=2), thorough=(KILL,), program=program)


OPERATIONS = (op_init, op_save_first, op_save_delta, op_save_tag, op_save_folder, op_restore_new, op_restore_over,
              op_tag_set, op_tag_move, op_tag_remove, op_rm, op_prune, op_gc, op_gc_repack, op_gc_repack_folder,
              op_repair, op_repair_from, op_save_parity, op_save_quota, op_watch, op_export, op_export_bundle, op_import)


# ---- What else must hold after one of them ----


def check_init(ckpt, root, plan, complete):
    if complete:
        return [f"init said yes, but {done}"] if (done := ckpt.run(root, "log")).code != 0 else []
    done = ckpt.run(root, "init")
    return [f"init again: {done}"] if done.code != 0 else []


def check_tag(ckpt, root, plan, complete):
    allowed = [plan.facts["new"]] if complete else [plan.facts["old"], plan.facts["new"]]
    found = trial.tag_of(root, "mine")
    done = ckpt.run(root, "tag")
    faults = [f"the tag is {found!r}"] if found not in allowed else []
    return faults + ([f"tag: {done}"] if done.code != 0 else [])


def check_save_tag(ckpt, root, plan, complete):
    fresh = trial.checkpoints(root) - set(plan.promise.known)
    allowed = set() if complete else {plan.facts["old"]}
    found = (trial.tag_of(root, "mine") or "").strip()
    return [f"the tag is {found!r}"] if found not in allowed | fresh else []


def check_restore(ckpt, root, plan, complete):
    """Each file is the old or the new one, and once more makes them all new."""
    faults = []
    out, old, new = root / plan.facts["out"], plan.facts["old"], plan.facts["new"]
    wanted = {**old, **new}
    for again in (False, True):
        if again and (done := ckpt.run(root, "restore", "latest", "-o", out, "--yes")).code != 0:
            return faults + [f"restore again: {done}"]
        whole = again or complete
        got = trial.without_tmp(trial.manifest(out)) if out.exists() else {}
        for name in sorted(set(got) | set(wanted)):
            allowed = [wanted.get(name)] if whole or name not in new else [old.get(name), new[name]]
            if got.get(name) not in allowed:
                faults.append(f"{name} is {got.get(name)}{' after another restore' if again else ''}")
    return faults


def check_export(ckpt, root, plan, complete):
    """The old file or the new one, and once more leaves the new one alone."""
    file, faults = root / "out/model.pt", []
    if file.read_bytes() not in [plan.facts["new"]] + ([] if complete else [plan.facts["old"]]):
        faults.append("the exported file is neither the old nor the new one")
    if (done := ckpt.run(root, *plan.words)).code != 0:
        return faults + [f"export again: {done}"]
    left = os.listdir(root / "out")
    return faults + ([f"export left {left}"] if left != ["model.pt"] or file.read_bytes() != plan.facts["new"] else [])


def check_bundle(ckpt, root, plan, complete):
    """No bundle, or a whole one; and once more leaves one alone."""
    file, faults = root / "out/one.zip", []
    if complete or file.exists():
        with zipfile.ZipFile(file) as archive:
            faults += [f"{archive.testzip()} of the bundle is damaged"] if archive.testzip() else []
    if (done := ckpt.run(root, *plan.words)).code != 0:
        return faults + [f"export again: {done}"]
    left = os.listdir(root / "out")
    return faults + ([f"export left {left}"] if left != ["one.zip"] else [])


def check_prune(ckpt, root, plan, complete):
    left = os.listdir(root / ".ckpt/tmp") + os.listdir(root / ".ckpt/intents")
    left = [name for name in left if name not in trial.LEASES]
    return [f"prune left {left}"] if complete and left else []


def check_repack(ckpt, root, plan, complete):
    held = json.loads(ckpt.must(root, "--json", "stats"))["held_bytes"]
    return [f"{held} bytes are still kept for differences"] if complete and held else []


def check_quota(ckpt, root, plan, complete):
    """The next save of goes_on has to find room."""
    ckpt.must(root, "init", "--quota", "0")
    return []


CHECKS = {"": None, "init": check_init, "tag": check_tag, "save_tag": check_save_tag, "restore": check_restore,
          "export": check_export, "bundle": check_bundle, "prune": check_prune, "repack": check_repack,
          "quota": check_quota}


# ---- Trials ----


def ignorable(hit):
    call, path = hit.split(" ", 1)
    return call in IGNORABLE_CALLS or path.startswith(IGNORABLE_FOLDERS)


def program(ckpt, shim):
    """The shim also runs beside the checks, where it only saves the waiting for the disk."""
    return Program(ckpt, {"LD_PRELOAD": shim, "CKPT_SHIM_NO_SYNC": "1"})


class Sweep:
    """Runs in a process of its own, in folders of its own."""

    def __init__(self, ckpt, template, plan, folder):
        self.ckpt, self.template, self.plan = ckpt, template, plan
        self.root, self.scratch, self.hit = folder / "trial", folder / "scratch", folder / "hit"
        self.folder = folder

    def run(self, mode, at):
        """None when the operation ended before its call `at`; else what it hit, and the faults. `at` 0: the end."""
        for path in (self.root, self.scratch):
            shutil.rmtree(path, ignore_errors=True)
        self.hit.unlink(missing_ok=True)
        self.scratch.mkdir(parents=True)
        shutil.copytree(self.template, self.root, symlinks=True)
        env = {"CKPT_SHIM_ROOT": str(self.root), "CKPT_SHIM_MODE": mode,
               "CKPT_SHIM_AT": str(at), "CKPT_SHIM_HIT": str(self.hit), "CKPT_SHIM_SCRATCH": str(self.scratch)}
        done = self.ckpt.run(self.root, *self.plan.words, env=env, program=self.plan.program or None)
        hit = self.hit.read_text().split("\n")[0] if self.hit.exists() else None
        if at and hit is None:
            return None
        hit = (hit or "end").replace(str(self.root) + "/", "")
        faults = self.status_faults(mode, done, at, hit)
        try:
            faults += self.store_faults(done.code == 0)
        except (OSError, ValueError, AssertionError) as error:
            faults.append(f"{type(error).__name__}: {error}")
        return hit, faults

    def status_faults(self, mode, done, at, hit):
        if at == 0:
            return [] if done.code == 0 else [f"{done}"]
        if mode in DEADLY:
            return [] if done.code == -9 else [f"it lived on: {done}"]
        if done.code not in EXIT_OF[mode]:
            return [f"{done}"]
        if done.code:
            return trial.error_faults(done, mode in (NO_SPACE, FULL_DISK))
        hidden = (IO_ERROR,) if self.plan.makes_room else (NO_SPACE, FULL_DISK, IO_ERROR)
        given_up = self.plan.makes_room and hit.startswith("close .ckpt/tmp/")  # a first try, before there was room
        if mode in hidden and not given_up and not ignorable(hit):
            return [f"a failure was passed over: {done}"]
        return []

    def store_faults(self, complete):
        plan, faults = self.plan, []
        check = CHECKS[plan.check]
        if plan.again and not complete and (done := self.ckpt.run(self.root, *plan.words)).code != 0:
            return [f"{plan.name} again: {done}"]
        if plan.check == "init":
            faults += check(self.ckpt, self.root, plan, complete)
        faults += trial.store_faults(self.ckpt, self.root, plan.promise, complete)
        if check and plan.check != "init":
            faults += check(self.ckpt, self.root, plan, complete)
        return faults + trial.goes_on(self.ckpt, self.root)


def task_run(task):
    ckpt_path, shim, template, plan, mode, first, step, folder = task
    folder = Path(folder) / f"worker-{os.getpid()}"
    sweep = Sweep(program(ckpt_path, shim), template, plan, folder)
    results = []
    at = first
    while at < CALLS_MAX and (result := sweep.run(mode, at)) is not None:
        results.append((f"{plan.name}, {mode} at {at} ({result[0]})", result[1]))
        if len(results) % (SAMPLES_OF_A_STEP if step >= SAMPLE_STEP else CALLS_OF_A_STEP) == 0:
            step *= 2  # a file of many writes is much of the same
        at += step
    if mode in (DROP, TORN) and first == 1:
        what, faults = sweep.run(mode, 0)
        results.append((f"{plan.name}, {mode} at its {what}", faults))
    return f"{plan.name}, {mode}", results


def tasks_of(args, folder):
    """Every call, in halves so that two processes share them evenly, or a sample."""
    ckpt = program(args.ckpt, args.shim)
    makers = list(OPERATIONS)
    if args.background:
        makers.append(lambda ckpt, root: op_background(ckpt, root, args.background))
    for number, make in enumerate(makers):
        template = folder / f"operation-{number}"
        template.mkdir()
        plan = make(ckpt, template)
        for index, mode in enumerate(MODES):
            if plan.slow and not args.full or args.only and args.only not in (plan.name, f"{plan.name},{mode}", mode):
                continue
            if args.full or mode in plan.thorough:
                starts = [(1, 2), (2, 2)]
            else:  # other places for each mode and operation; 1 is where the end is tried too
                starts = [(1, SAMPLE_STEP + (number + index) % 3)]
            for first, step in starts:
                yield args.ckpt, args.shim, str(template), plan, mode, first, step, str(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--shim", required=True, type=os.path.abspath)
    parser.add_argument("--background", type=os.path.abspath, help="program that saves through the background writer")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", help="one operation, one mode, or OPERATION,MODE")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    started = time.monotonic()
    folder = trial.scratch_folder()
    report, calls = Report(), {}
    try:
        with multiprocessing.Pool(args.jobs) as pool:
            for what, results in pool.imap_unordered(task_run, list(tasks_of(args, folder))):
                calls[what] = calls.get(what, 0) + len(results)
                for name, faults in results:
                    report.add(name, faults)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for what in sorted(calls):
        print(f"{what}: {calls[what]}")
    print(f"{time.monotonic() - started:.0f} s in {folder.parent}")
    if report.trials == 0:
        print("nothing was tried")
        return 1
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
