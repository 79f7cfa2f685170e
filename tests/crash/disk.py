#!/usr/bin/env python3
"""A full disk, a read-only one, and one that we may not write to: nothing is lost, and the error says what to do.

    disk.py --ckpt PROGRAM

Mounts small tmpfs and, through loop devices, small ext4, as root or in a user namespace of its own; a part that may not
be done here is left out and named. Ends with 77 when all were."""
import argparse
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import trial
from trial import Program, Report

SIZES = {"1m": 60_000, "4m": 60_000, "16m": 500_000, "64m": 3_000_000}  # and bytes of the files that fill it
LOOP_SIZES = ("16m",)  # ext4 keeps room for its journal, so that it is full in another way
SAVES_MAX = 400
KEPT_SAVES = 30
NOBODY = "65534"


def quietly(*words):
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Mount:
    """A small file system for a while: tmpfs, or ext4 in a file of its own."""

    def __init__(self, folder, size, kind="tmpfs"):
        self.folder, self.size, self.kind = folder, size, kind
        self.image = folder.with_suffix(".image")

    def mount(self):
        if self.kind == "tmpfs":
            return quietly("mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs", str(self.folder))
        os.truncate(os.open(self.image, os.O_CREAT | os.O_WRONLY), int(self.size[:-1]) << 20)
        return (quietly("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image)) and
                quietly("mount", "-o", "loop", str(self.image), str(self.folder)))

    def __enter__(self):
        self.folder.mkdir(exist_ok=True)
        if not self.mount():
            raise OSError(f"{self.kind} cannot be mounted here")
        return self.folder

    def __exit__(self, *_):
        quietly("umount", "-l", str(self.folder))
        self.image.unlink(missing_ok=True)


def become_root():
    """Begins again in a user namespace, in which anyone may mount; who is root, or may not have one, stays."""
    if os.geteuid() != 0 and quietly("unshare", "-Urm", "true"):
        os.execvp("unshare", ["unshare", "-Urm", sys.executable, *sys.argv])


def refusal_faults(done, code, hint_wanted=True):
    faults = [f"exit {code} was due: {done}"] if done.code != code else []
    return faults + trial.error_faults(done, hint_wanted)


def may_mount(folder, size="64k", kind="tmpfs"):
    try:
        with Mount(folder / "probe", size, kind):
            return True
    except OSError:
        return False


def fill(ckpt, root, data, size, known):
    """Saves noise until no more fits; the answer to the save that did not."""
    noise = random.Random(1)
    for _ in range(SAVES_MAX):
        data.write_bytes(noise.randbytes(size))
        done = ckpt.run(root, "save", data)
        if done.code != 0:
            return done
        newest = sorted(os.listdir(root / ".ckpt/snapshots"))[-1]
        known[newest[9:73]] = trial.manifest_of(data.parent, data.name)
    raise AssertionError(f"the disk took {SAVES_MAX} saves")


def use_up(root):
    """To the last byte: what a program writes beside the store may take what a failed save gave back."""
    for step in (1 << 20, 512):
        try:
            with open(root / f"ballast-{step}", "wb", buffering=0) as ballast:
                while ballast.write(b"x" * step):
                    pass
        except OSError:
            pass


def full_disk(ckpt, folder, size, kind="tmpfs"):
    """Inputs and restored files lie on another disk; only the store's is full."""
    data, known = folder / "data.bin", {}
    with Mount(folder / f"{kind}-{size}", size, kind) as root:
        ckpt.must(root, "init", "--keep", f"last {SAVES_MAX}")  # which makes no room
        faults = refusal_faults(fill(ckpt, root, data, SIZES[size], known), 5)
        use_up(root)
        faults += refusal_faults(ckpt.run(root, "save", data), 5)
        faults += full_disk_faults(ckpt, root, known)
        faults += restore_onto_full_faults(ckpt, root, known) + care_faults(ckpt, root)
        oldest = sorted(os.listdir(root / ".ckpt/snapshots"))[0][9:73]
        for words in (("rm", oldest, "--yes"), ("prune", "--keep", "last 2", "--yes")):
            before = shutil.disk_usage(root).free
            done = ckpt.run(root, *words)
            if done.code != 0:
                faults.append(f"{words[0]} on a full disk: {done}")
        if shutil.disk_usage(root).free < before + SIZES[size]:
            faults.append("prune freed nothing")
        if len(trial.checkpoints(root)) != 2:
            faults.append(f"prune left {len(trial.checkpoints(root))} checkpoints instead of 2")
        for id in trial.checkpoints(root):
            faults += trial.restores(ckpt, root, id, known[id])
        done = ckpt.run(root, "save", data)
        return faults + ([f"save after prune: {done}"] if done.code != 0 else [])


def care_faults(ckpt, root):
    """There is nothing to mend or to move; where that needs room it is refused."""
    faults = []
    for words in (("repair", "--yes"), ("gc", "--yes"), ("gc", "--repack", "--yes"), ("repair", "--add-parity", "5%", "--yes")):
        done = ckpt.run(root, *words)
        if done.code not in (0, 5):
            faults.append(f"{' '.join(words)} on a full disk: {done}")
    return faults


def restore_onto_full_faults(ckpt, root, known):
    """Nothing half is left, and a file that stood there stays what it was."""
    out = root / "out"
    faults = []
    newest = trial.newest_first(root)[0]
    for before in ({}, {"data.bin": b"mine"}):
        try:
            out.mkdir(exist_ok=True)
            for name, text in before.items():
                (out / name).write_bytes(text)
        except OSError:  # not even that fits
            return faults
        was = trial.manifest(out)
        done = ckpt.run(root, "restore", newest, "-o", out, "--yes")
        faults += [f"restore onto a full disk: {fault}" for fault in refusal_faults(done, 5)]
        if trial.manifest(out) != was:
            faults.append(f"restore onto a full disk left {trial.manifest(out)}")
    return faults


def kept_disk(ckpt, folder, size):
    """The policy makes room for each save, as long as there are checkpoints that it does not keep."""
    data, faults, known = folder / "data.bin", [], {}
    noise = random.Random(2)
    with Mount(folder / f"kept-{size}", size) as root:
        ckpt.must(root, "init", "--keep", "last 2")
        for _ in range(KEPT_SAVES):
            data.write_bytes(noise.randbytes(SIZES[size]))
            id = ckpt.save(root, data)
            known[id] = trial.manifest_of(folder, "data.bin")
            present = trial.newest_first(root)
            if present[0] != id or len(present) < min(len(known), 2):
                faults.append(f"{present} are left")
            for each in present[:3]:
                faults += trial.restores(ckpt, root, each, known[each])
        if len(trial.checkpoints(root)) == KEPT_SAVES:
            faults.append("the disk had room for all of them")
        ckpt.must(root, "verify", "--full")
    return faults


def full_disk_faults(ckpt, root, known):
    faults = []
    for id, wanted in known.items():
        faults += trial.restores(ckpt, root, id, wanted)
    for words in (("log",), ("verify", "--full"), ("show", "latest"), ("stats",)):
        done = ckpt.run(root, *words)
        if done.code != 0:
            faults.append(f"{words[0]} on a full disk: {done}")
    if set(known) != trial.checkpoints(root):
        faults.append("a save that failed changed the list of checkpoints")
    return faults


def stored(ckpt, root):
    """A store with two checkpoints."""
    ckpt.must(root, "init")
    known = {}
    for step in (1, 2):
        (root / "data.bin").write_bytes(b"weights %d " % step * 5000)
        known[ckpt.save(root, "data.bin", "--tag", f"t{step}")] = trial.manifest_of(root, "data.bin")
    return known


READING = (("log",), ("show", "latest"), ("diff", "t1", "t2"), ("stats",), ("verify", "--full"), ("tag",),
           ("prune", "--dry-run"))
WRITING = (("save", "data.bin"), ("tag", "new", "latest"), ("tag", "--delete", "t1"), ("rm", "t1", "--force", "--yes"),
           ("prune", "--keep", "last 1", "--yes"))


def read_only_faults(ckpt, root, folder, known, env_prefix=()):
    faults = []
    for words in READING:
        done = ckpt.run(root, *words, prefix=env_prefix)
        if done.code != 0:
            faults.append(f"{' '.join(words)}: {done}")
    for words in WRITING:
        faults += [f"{' '.join(words)}: {fault}" for fault in
                   refusal_faults(ckpt.run(root, *words, prefix=env_prefix), 10)]
    for id, wanted in known.items():
        out = folder / f"out-{id[:8]}"
        out.mkdir(mode=0o777)
        out.chmod(0o777)
        done = ckpt.run(root, "restore", id, "-o", out, prefix=env_prefix)
        if done.code != 0 or trial.manifest(out) != wanted:
            faults.append(f"restore {id[:8]}: {done}")
        shutil.rmtree(out)
    return faults


def read_only(ckpt, folder):
    with Mount(folder / "read-only", "4m") as root:
        known = stored(ckpt, root)
        if not quietly("mount", "-o", "remount,ro", str(root)):
            return None
        faults = read_only_faults(ckpt, root, folder, known)
        (folder / "init").mkdir()
        faults += [f"init: {fault}" for fault in refusal_faults(ckpt.run(root, "init", "sub"), 10)]
        return faults


def no_permission(ckpt, folder):
    """As a user whom the store does not belong to."""
    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if os.geteuid() != 0 or not quietly(*prefix, ckpt.path, "version"):
        return None
    root = folder / "theirs"
    root.mkdir()
    folder.chmod(0o755)
    known = stored(ckpt, root)
    return read_only_faults(ckpt, root, folder, known, prefix)


def no_permission_to_read(ckpt, folder):
    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if os.geteuid() != 0 or not quietly(*prefix, ckpt.path, "version"):
        return None
    root = folder / "closed"
    root.mkdir()
    stored(ckpt, root)
    (root / ".ckpt").chmod(0o700)
    faults = []
    for words in (("log",), ("save", "data.bin"), ("restore", "latest")):
        faults += [f"{words[0]}: {fault}" for fault in refusal_faults(ckpt.run(root, *words, prefix=prefix), 10)]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    args = parser.parse_args()
    become_root()
    ckpt, report, skipped = Program(args.ckpt), Report(), []
    folder = trial.scratch_folder()
    try:
        parts = [("no permission to write", no_permission, ()), ("no permission to read", no_permission_to_read, ())]
        if may_mount(folder):
            parts += [("read-only file system", read_only, ())]
            parts += [(f"full disk of {size}", full_disk, (size,)) for size in SIZES]
            parts += [("disk on which the policy makes room", kept_disk, ("1m",))]
        else:
            skipped.append("full disk and read-only file system (no right to mount)")
        for size in LOOP_SIZES:
            if may_mount(folder, size, "ext4"):
                parts += [(f"full ext4 of {size}", full_disk, (size, "ext4"))]
            else:
                skipped.append(f"full ext4 of {size} (no loop device, or no mkfs.ext4)")
        for name, part, more in parts:
            faults = part(ckpt, folder, *more)
            if faults is None:
                skipped.append(name)
            else:
                report.add(name, faults)
                print(f"{name}: tried")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name in skipped:
        print(f"left out: {name}")
    return report.end() if report.trials else 77


if __name__ == "__main__":
    sys.exit(main())
