#!/usr/bin/env python3
"""What users of other programs lost, and why they would not have lost it here: a test for each complaint, named after it.

    complaints.py --ckpt PROGRAM --shim LIBRARY [--only WORD]

Names are project, number of the issue or pull request there, and what must hold. docs/testing.md has the list, with those
whose test stands elsewhere. A test that cannot be done here is named as left out; it has not passed."""
import argparse
import gzip
import itertools
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import disk
import trial
from trial import GOLDEN, Program, Report

FULL_DISK, NO_SPACE, IO_ERROR, KILL, DROP, TRACE = (
    "fail-from:ENOSPC", "fail:ENOSPC", "fail:EIO", "kill", "drop", "trace")
CALLS_MAX = 2000
WEIGHTS = "model.safetensors"


class Skipped(Exception):
    pass


def check(condition, what):
    if not condition:
        raise AssertionError(str(what))


class Scene:
    """An empty store in a folder of its own, and what a test does with it."""

    def __init__(self, args, folder):
        self.folder, self.root = folder, folder / "work"
        self.root.mkdir()
        self.scratch = folder / "scratch"
        self.quick = Program(args.ckpt, {"LD_PRELOAD": args.shim, "CKPT_SHIM_NO_SYNC": "1"})
        self.random = random.Random(1)
        self.training = trial.Training(self.random)
        self.must("init")

    def run(self, *words, **more):
        return self.quick.run(self.root, *words, **more)

    def must(self, *words):
        return self.quick.must(self.root, *words)

    def step(self, path=WEIGHTS):
        """The training goes on, and overwrites its file."""
        self.training.step(self.root / path)
        return (self.root / path).read_bytes()

    def save(self, *words):
        return self.quick.save(self.root, *words)

    def log(self):
        return [json.loads(line) for line in self.must("--json", "log").splitlines()]

    def restored(self, name="latest", path=WEIGHTS):
        """The bytes of a file of a checkpoint."""
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            self.must("restore", name, "-o", out)
            return Path(out, path).read_bytes()

    def failing(self, mode, at, *words):
        """Runs a command whose call `at` is stopped or fails. None when it has no such call."""
        hit = self.folder / "hit"
        hit.unlink(missing_ok=True)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        done = self.run(*words, env={"CKPT_SHIM_ROOT": str(self.root), "CKPT_SHIM_MODE": mode, "CKPT_SHIM_AT": str(at),
                                     "CKPT_SHIM_HIT": str(hit), "CKPT_SHIM_SCRATCH": str(self.scratch)})
        return done if hit.exists() else None

    def at_each_call(self, mode, *words, step=1):
        for at in range(1, CALLS_MAX, step):
            done = self.failing(mode, at, *words)
            if done is None:
                return
            yield done

    def traced(self, *words):
        """The calls that changed files, as (call, path from the root on)."""
        hit = self.folder / "trace"
        hit.unlink(missing_ok=True)
        done = self.run(*words, env={"CKPT_SHIM_ROOT": str(self.root), "CKPT_SHIM_MODE": TRACE,
                                     "CKPT_SHIM_HIT": str(hit)})
        check(done.code == 0, done)
        lines = hit.read_text().splitlines() if hit.exists() else []
        return [(call, os.path.relpath(path, self.root)) for call, path in (line.split(" ", 1) for line in lines)]

    def packs(self):
        return sorted((self.root / ".ckpt/packs").iterdir(), key=lambda path: path.stat().st_mtime_ns)

    def own_pack(self, id):
        (snapshot,) = (self.root / ".ckpt/snapshots").glob(f"*-{id}.json")
        return self.root / ".ckpt/packs" / (json.loads(snapshot.read_text())["data"]["pack"] + ".pack")

    def damage(self, path, at=None):
        """One bit of the data."""
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        data[at if at is not None else len(data) // 3] ^= 16
        path.write_bytes(data)


# ---- Saving that is cut short ----


def complaint_pytorch_lightning_688_a_killed_save_leaves_no_half_file(s):
    """Their file was cut off: "unexpected EOF" when it was loaded."""
    before = s.step()
    s.save(WEIGHTS)
    after = s.step()
    kills = 0
    for done in s.at_each_call(KILL, "save", WEIGHTS):
        check(done.code == -signal.SIGKILL, done)
        check(s.restored() in (before, after), "half a file")
        kills += 1
    check(kills > 10 and s.restored() == after, f"{kills} kills")


def complaint_pytorch_lightning_19970_no_command_writes_under_a_final_name(s):
    """Theirs was atomic once, and ceased to be so unnoticed when the code was moved."""
    s.step()
    s.save(WEIGHTS)
    s.step()
    final = (".ckpt/packs/", ".ckpt/snapshots/", ".ckpt/tags/", ".ckpt/config.ini", "out/")
    for words in (("save", WEIGHTS, "--tag", "mine"), ("restore", "latest", "-o", "out"), ("tag", "mine", "latest~1", "--yes"),
                  ("restore", "mine", "-o", "out", "--yes"), ("prune", "--keep", "last 1", "--yes")):
        synced = set()
        for call, path in s.traced(*words):
            if call in ("fsync", "fdatasync"):
                synced.add(path)
            if path.startswith(final) and not trial.TMP_NAME.fullmatch(Path(path).name):
                check(call in ("rename", "renameat", "renameat2", "unlink", "mkdir", "fsync", "fdatasync"),
                      f"{words[0]}: {call} of {path}")
            if call.startswith("rename"):
                check(any(trial.TMP_NAME.fullmatch(Path(each).name) for each in synced), f"{words[0]}: {path} not synced")


def complaint_pytorch_lightning_21431_what_a_disk_made_of_the_bytes_is_never_handed_out(s):
    """Now and then a checkpoint was corrupt, and loaded or not as it came."""
    states = [s.step()]
    s.save(WEIGHTS)
    states.append(s.step())
    pack = s.own_pack(s.save(WEIGHTS))
    good = pack.read_bytes()
    for at in range(20, len(good), len(good) // 24):
        s.damage(pack, at)
        with tempfile.TemporaryDirectory(dir=s.folder) as out:
            done = s.run("restore", "latest", "-o", out)
            got = Path(out, WEIGHTS).read_bytes() if Path(out, WEIGHTS).exists() else None
        check(done.code in (0, 3) and got in (*states, None), f"byte {at}: {done}")
        check(done.code == 0 or got is None, f"byte {at}: {done}")
        pack.write_bytes(good)


def complaint_pytorch_lightning_21800_a_save_without_permission_fails(s):
    """Theirs swallowed PermissionError: success was reported, and nothing written."""
    prefix = ("setpriv", f"--reuid={disk.NOBODY}", f"--regid={disk.NOBODY}", "--clear-groups")
    if os.geteuid() == 0 and not disk.quietly(*prefix, s.quick.path, "version"):
        raise Skipped("root may write everywhere, and setpriv or the way to the program is missing")
    s.step()
    s.save(WEIGHTS)
    s.folder.chmod(0o755)
    for folder in ("tmp", "packs", "snapshots", "intents"):
        (s.root / ".ckpt" / folder).chmod(0o555)
    before = trial.checkpoints(s.root)
    done = s.run("save", WEIGHTS, prefix=prefix if os.geteuid() == 0 else ())
    for folder in ("tmp", "packs", "snapshots", "intents"):
        (s.root / ".ckpt" / folder).chmod(0o755)
    check(done.code == 10 and "ermission" in done.err and trial.checkpoints(s.root) == before, done)


def complaint_pytorch_170244_the_error_says_that_the_checkpoint_is_damaged(s):
    """Theirs was about pickles and archives; nobody could tell that the file was corrupt."""
    s.step()
    id = s.save(WEIGHTS)
    s.damage(s.own_pack(id))
    done = s.run("restore", id, "-o", "out")
    check(done.code == 3 and WEIGHTS in done.err, done)
    check("damaged" in done.err or "fails its check" in done.err, done)
    check("hint: " in done.err, done)


def complaint_pytorch_126952_a_flipped_bit_of_a_tensor_is_found_when_it_is_read(s):
    """Their archive has checksums, which are not looked at when it is loaded."""
    shutil.copy(GOLDEN / "checkpoint_epoch_1.pt", s.root)
    id = s.save("checkpoint_epoch_1.pt")
    s.damage(s.own_pack(id), 4000)
    done = s.run("verify", "--full")
    check(done.code == 3 and "checkpoint_epoch_1.pt" in done.out + done.err, done)
    check(s.run("restore", id, "-o", "out").code == 3 and not (s.root / "out/checkpoint_epoch_1.pt").exists(), "restored")


def complaint_pytorch_12042_a_file_that_is_cut_off_is_told_when_it_is_saved(s):
    """Storage has wrong size, said the load, when the training was long over."""
    whole = (GOLDEN / "checkpoint_epoch_1.pt").read_bytes()
    (s.root / "last.pt").write_bytes(whole[:len(whole) * 2 // 3])
    done = s.run("save", "last.pt")
    check(done.code == 0 and "last.pt" in done.err and ("cut off" in done.err or "end" in done.err), done)
    check(s.restored(path="last.pt") == whole[:len(whole) * 2 // 3], "other bytes")


def complaint_ultralytics_5793_a_full_disk_leaves_the_last_good_checkpoint(s):
    """The writer failed, last.pt was corrupt, and the advice was to delete it."""
    good = s.step()
    s.save(WEIGHTS)
    new = s.step()
    refusals = 0
    for done in s.at_each_call(FULL_DISK, "save", WEIGHTS):
        check(done.code in (0, 5) and s.restored() in (good, new), done)
        refusals += done.code == 5 and "no space" in done.err and s.restored() == good
    check(refusals > 5, f"{refusals} saves refused")


def complaint_dddd_trainer_36_a_bad_newest_checkpoint_is_passed_over(s):
    """After a full disk the resume took the broken file, and died of it each time."""
    good = s.step()
    s.save(WEIGHTS)
    s.step()
    pack = s.own_pack(s.save(WEIGHTS))
    pack.chmod(0o644)
    os.truncate(pack, pack.stat().st_size // 2)
    done = s.run("restore", "latest", "-o", "out")
    check(done.code == 0 and "damaged" in done.err, done)
    check((s.root / "out" / WEIGHTS).read_bytes() == good, "not the newest good one")


def complaint_keras_20463_an_interrupt_while_saving_spoils_nothing(s):
    """Ctrl-C left a corrupt backup; a second copy was the cure, at twice the space."""
    good = s.step()
    s.save(WEIGHTS)
    (s.root / "large.bin").write_bytes(s.random.randbytes(24 << 20))
    interrupted = 0
    for wait in (0.02, 0.04, 0.06, 0.1):
        process = s.quick.start(s.root, "save", "large.bin")
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=trial.TIMEOUT_S)
        check(process.returncode in (0, 130, -signal.SIGINT), process.returncode)
        interrupted += process.returncode != 0
        if process.returncode:
            check(s.restored() == good, "latest is another one")
    check(interrupted > 0, "no save was interrupted")
    left = sum(path.stat().st_size for path in (s.root / ".ckpt/tmp").iterdir())
    check(left < 1 << 20, f"{left} bytes left in tmp/")


def complaint_tensorflow_41874_no_failure_to_write_is_hidden(s):
    """Exceptions of the file library were caught and dropped."""
    s.step()
    s.save(WEIGHTS)
    s.step()
    failed = 0
    for done in s.at_each_call(IO_ERROR, "save", WEIGHTS):
        faults = [] if done.code == 0 else trial.error_faults(done, False)
        check(done.code in (0, 10) and not faults, f"{done} {faults}")
        failed += done.code == 10
        if done.code == 0:  # what could not be written was not needed: the checkpoint is there
            check(s.restored() == (s.root / WEIGHTS).read_bytes(), "success, but nothing saved")
    check(failed > 5, f"{failed} failures told")


def complaint_faceswap_329_a_power_cut_costs_at_most_the_save_under_way(s):
    """The model was destroyed, as its only file was being overwritten; they asked for rolling backups."""
    before = s.step()
    s.save(WEIGHTS)
    after = s.step()
    for done in s.at_each_call(DROP, "save", WEIGHTS):
        check(s.restored() in (before, after), "the model is destroyed")


def complaint_burn_5479_a_failed_restore_leaves_the_file_that_was_there(s):
    """A store that failed had cut the old checkpoint to nothing first."""
    s.step()
    s.save(WEIGHTS)
    mine = s.step()
    for mode in (NO_SPACE, IO_ERROR):
        for done in s.at_each_call(mode, "restore", "latest", "--yes"):
            check(done.code in (0, 5, 10), done)
            if done.code == 0 or (s.root / WEIGHTS).read_bytes() != mine:
                check((s.root / WEIGHTS).read_bytes() == s.restored(), "neither the old nor the new file")
                (s.root / WEIGHTS).write_bytes(mine)


def complaint_safetensors_762_a_file_under_mmap_is_not_changed_by_a_restore(s):
    """Saving over a file that was mapped gave zeros to who had it mapped."""
    s.step()
    s.save(WEIGHTS)
    mine = s.step()
    with open(s.root / WEIGHTS, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        s.must("restore", "latest", "--yes")
        check(bytes(mapped) == mine, "the mapping shows other bytes")
        check((s.root / WEIGHTS).read_bytes() == s.restored() != mine, "not restored")


def complaint_safetensors_787_nothing_is_preallocated(s):
    """Preallocation is an error on some FUSE file systems, and was fatal."""
    s.step()
    calls = s.traced("save", WEIGHTS) + s.traced("restore", "latest", "-o", "out")
    check(not [call for call, _ in calls if "fallocate" in call], calls)


def complaint_turbovec_118_on_a_disk_of_1_mb_a_failed_overwrite_keeps_the_good_file(s):
    """Their recipe: an image of 1 MB, a good file, and another one over it that does not fit."""
    data = s.root / "data.bin"
    good, other = s.random.randbytes(600_000), s.random.randbytes(700_000)
    data.write_bytes(other)
    s.save("data.bin")
    data.write_bytes(good)
    s.save("data.bin")
    kinds = [kind for kind in ("ext4", "tmpfs") if disk.may_mount(s.folder, "1m", kind)]
    if not kinds:
        raise Skipped("no right to mount")
    with disk.Mount(s.folder / "small", "1m", kinds[0]) as small:
        done = s.run("restore", "latest", "-o", small)
        check(done.code == 0, done)
        done = s.run("restore", "latest~1", "-o", small, "--yes")
        check(done.code == 5 and (small / "data.bin").read_bytes() == good, done)
        check(sorted(os.listdir(small)) in (["data.bin"], ["data.bin", "lost+found"]), os.listdir(small))


def complaint_adaptdl_81_files_of_one_checkpoint_are_saved_together(s):
    """Each file was renamed into place by itself, so that a crash mixed model and optimizer of two steps."""
    states = []
    for _ in range(2):
        states.append({name: s.step(f"run/{name}") for name in ("model.bin", "optimizer.bin", "rng.bin")})
        if len(states) == 1:
            s.save("run")
    for done in s.at_each_call(KILL, "save", "run", step=3):
        with tempfile.TemporaryDirectory(dir=s.folder) as out:
            s.must("restore", "latest", "-o", out)
            got = {path.name: path.read_bytes() for path in Path(out, "run").iterdir()}
        check(got in states, "files of two checkpoints")


def complaint_rwkv_infctx_13_keeping_one_is_safe(s):
    """With `keep 1` the only checkpoint had been deleted when the crash came."""
    states = [s.step()]
    s.save(WEIGHTS)
    for _ in range(3):
        states.append(s.step())
        for words in (("save", WEIGHTS), ("prune", "--keep", "last 1", "--yes")):
            for done in s.at_each_call(KILL, *words, step=5):
                check(s.restored() in states[-2:], "the only checkpoint is lost")
            s.must(*words)
        check(len(trial.checkpoints(s.root)) == 1 and s.restored() == states[-1], "not one")


# ---- What the newest one is ----


def complaint_kempnerforge_102_latest_moves_only_to_what_is_durable(s):
    """The link `latest` moved, the old one was pruned, and the new one was not on the disk yet."""
    states = [s.step()]
    s.save(WEIGHTS, "--tag", "last")
    states.append(s.step())
    for done in itertools.chain(s.at_each_call(DROP, "save", WEIGHTS, "--tag", "last"),
                                s.at_each_call(DROP, "prune", "--keep", "last 1", "--yes")):
        check(s.restored() in states and s.restored("last") in states, "it names nothing")
    check(s.failing(DROP, 0, "save", WEIGHTS, "--tag", "last") is None, "hit")
    check(s.restored("last") == states[1], "the power was cut after success, and it is gone")


def complaint_maxtext_5260_a_step_that_failed_is_not_there_and_can_be_saved_again(s):
    """A failed step stayed in the list: it was restored, and later saves of it were skipped."""
    good = s.step()
    s.save(WEIGHTS, "--step", "1")
    state = s.step()
    for done in s.at_each_call(NO_SPACE, "save", WEIGHTS, "--step", "2"):
        if done.code == 0:
            break
        check(s.run("show", "step:2").code == 4 and s.restored() == good, done)
    s.must("save", WEIGHTS, "--step", "2")
    check(s.restored("step:2") == s.restored() == state, "not saved again")


def complaint_fairseq2_1292_checkpoints_of_one_training_take_less_than_each_compressed(s):
    """gzip on top was no use, and with the optimizer's state a checkpoint was three times as large."""
    gzipped = stored = 0
    for epoch in (1, 2, 3):
        shutil.copy(GOLDEN / f"checkpoint_epoch_{epoch}.pt", s.root / "checkpoint.pt")
        gzipped += len(gzip.compress((s.root / "checkpoint.pt").read_bytes(), 9))
        stored += json.loads(s.must("--json", "save", "checkpoint.pt"))["stored_bytes"]
    check(stored < 0.97 * gzipped, f"{stored} bytes, {gzipped} by gzip -9")


# ---- Damage, locks, maintenance, copies ----


def complaint_restic_4857_a_pack_that_went_missing_hurts_only_what_needs_it(s):
    """Data seem to be missing, said their check after a hiccup of the storage."""
    first = s.random.randbytes(200_000)
    (s.root / "a.bin").write_bytes(first)
    a = s.save("a.bin")
    (s.root / "b.bin").write_bytes(s.random.randbytes(200_000))
    b = s.save("b.bin")
    s.own_pack(b).unlink()
    done = s.run("verify")
    check(done.code == 3 and b[:8] in done.out + done.err and a[:8] not in done.out + done.err, done)
    check(s.restored(a, "a.bin") == first, "the other one is hurt")
    again = s.save("b.bin")  # what is gone is not shared with
    check(s.restored(again, "b.bin") == (s.root / "b.bin").read_bytes(), "saved again, but not whole")


def complaint_restic_1999_bytes_that_turned_bad_are_not_built_upon(s):
    """Packs that a bad link or bad memory had spoiled were shared by later backups."""
    for size in (200_000, 3 << 20):
        data = s.random.randbytes(size)
        (s.root / "data.bin").write_bytes(data)
        s.damage(s.own_pack(s.save("data.bin")), size // 2)
        again = s.save("data.bin")
        check(s.restored(again, "data.bin") == data, f"{size} bytes shared with damaged ones")


def complaint_restic_2452_what_dead_processes_hold_blocks_nobody(s):
    """Locks of dead hosts blocked backups for weeks, and removing them by hand was not safe."""
    s.step()
    s.save(WEIGHTS)
    for at in range(3, 30, 3):
        s.step()
        s.failing(KILL, at, "save", WEIGHTS)
        s.failing(KILL, at, "prune", "--keep", "last 3", "--yes")
    record = "ckpt lease 1\ncounter 00000000000000a7\nkind lock\ntoken %032x\nstale_ms 600000\npid 1\nhost gone\n"
    for number, name in enumerate(("prune.lease", "0123456789abcdef.lease")):
        (s.root / ".ckpt/intents" / name).write_text(record % number)
    s.must("save", WEIGHTS)
    s.must("prune", "--keep", "last 2", "--yes")
    check(os.listdir(s.root / ".ckpt/intents") == [], os.listdir(s.root / ".ckpt/intents"))


def complaint_kopia_1087_maintenance_at_the_same_time_deletes_nothing_that_lives(s):
    """Two runs of it overlapped, and deleted blobs that new snapshots used."""
    states = {}
    for _ in range(4):
        state = s.step()
        states[s.save(WEIGHTS)] = state
    for turn in range(6):
        prunes = [s.quick.start(s.root, "prune", "--keep", "last 2", "--yes") for _ in range(3)]
        state = s.step()
        states[s.save(WEIGHTS)] = state
        prunes += [s.quick.start(s.root, "prune", "--keep", "last 2", "--yes") for _ in range(2)]
        for process in prunes:
            process.communicate(timeout=trial.TIMEOUT_S)
            check(process.returncode in (0, 8), process.returncode)
        for id in trial.newest_first(s.root):
            check(s.restored(id) == states[id], f"{id[:8]} is hurt")
    s.must("verify", "--full")


def complaint_borg_364_a_full_disk_stops_no_repair(s):
    """Their repair died of the full disk that had made it necessary, or of counts that were wrong."""
    s.must("init", "--parity", "20%")
    s.step()
    s.save(WEIGHTS)
    good = s.step()
    pack = s.own_pack(s.save(WEIGHTS))
    refusals = 0
    s.damage(pack)
    for done in s.at_each_call(FULL_DISK, "repair", "--yes", step=5):
        check(done.code in (0, 5), done)
        refusals += done.code == 5
        mended = s.run("verify", "--full").code == 0
        check(mended or done.code == 5, done)
        if mended:
            check(s.restored() == good, "mended with other bytes")
            s.damage(pack)
    check(refusals > 5, f"{refusals} repairs that found no space")
    s.must("repair", "--yes")
    s.must("verify", "--full")
    check(s.restored() == good, "mended with other bytes")
    for words in (("prune", "--keep", "last 1", "--yes"), ("gc", "--repack", "--yes")):
        for done in s.at_each_call(FULL_DISK, *words, step=2):
            check(done.code in (0, 5) and s.restored() == good, f"{words[0]}: {done}")


def complaint_orbax_394_a_copied_store_is_as_good_and_loses_nothing(s):
    """Copied into a bucket, checkpoints looked temporary, and were deleted."""
    states = {}
    for _ in range(3):
        state = s.step()
        states[s.save(WEIGHTS)] = state
    copy = s.folder / "copy"
    for path in (s.root / ".ckpt").rglob("*"):  # as buckets do it: files alone, with new times, in any order
        if path.is_file():
            to = copy / ".ckpt" / path.relative_to(s.root / ".ckpt")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
            os.utime(to, (0, 0))
    shutil.rmtree(s.root)
    copy.rename(s.root)
    s.must("verify", "--full")
    s.step()
    s.must("prune", "--keep", "last 3", "--yes")
    for id, state in states.items():
        check(s.restored(id) == state, f"{id[:8]} is hurt")
    s.must("save", WEIGHTS)


# ---- What is kept ----


def complaint_pytorch_lightning_11451_the_old_last_can_go_once_the_tag_moved(s):
    """Each run left its own `last` behind, for ever."""
    for _ in range(3):
        s.step()
        newest = s.save(WEIGHTS, "--tag", "last")
    s.must("prune", "--keep", "tagged", "--yes")
    check(trial.checkpoints(s.root) == {newest}, "old ones are still there")


def complaint_unsloth_8856_a_policy_is_carried_out_or_refused(s):
    """`keep` was accepted and ignored, and the disk filled."""
    config = s.root / ".ckpt/config.ini"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("keep")]
    config.write_text("\n".join(lines + ["[retention]", "keep = last 2", ""]))
    for _ in range(5):
        (s.root / "data.bin").write_bytes(s.random.randbytes(100_000))
        s.save("data.bin")
    s.must("prune", "--yes")
    check(len(trial.checkpoints(s.root)) == 2, "the policy was ignored")
    check(sum(path.stat().st_size for path in s.packs()) < 2.5 * 100_000, "its bytes are still there")
    config.write_text(config.read_text().replace("last 2", "newest 2"))
    check(s.run("prune", "--yes").code == 2 and len(trial.checkpoints(s.root)) == 2, "a rule that is none was accepted")


def complaint_tensorflow_7946_no_save_deletes_anything(s):
    """Only the last five were kept unless one knew of the option."""
    states = {}
    for _ in range(30):
        state = s.step()
        states[s.save(WEIGHTS)] = state
    check(trial.checkpoints(s.root) == set(states), "a save deleted one")
    oldest = next(iter(states))
    check(s.restored(oldest) == states[oldest], "the oldest is hurt")


def complaint_sheeprl_170_the_last_and_the_best_are_kept_together(s):
    """They had keep-last and asked for keep-best beside it."""
    values = (0.5, 0.9, 0.7, 0.8, 0.1, 0.2)
    ids = []
    config = s.root / ".ckpt/config.ini"
    lines = [line for line in config.read_text().splitlines() if not line.startswith(("keep", "best"))]
    config.write_text("\n".join(lines + ["[retention]", "best = val_acc max", ""]))
    for value in values:
        s.step()
        ids.append(s.save(WEIGHTS, "--meta", f"val_acc={value}"))
    s.must("prune", "--keep", "last 2, best 2", "--yes")
    check(trial.checkpoints(s.root) == {ids[1], ids[3], ids[4], ids[5]}, s.log())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--shim", required=True, type=os.path.abspath)
    parser.add_argument("--only", default="", help="tests whose name holds this")
    args = parser.parse_args()
    report, skipped = Report(), []
    tests = {name: test for name, test in globals().items() if name.startswith("complaint_") and args.only in name}
    for name, test in tests.items():
        folder, began = trial.scratch_folder(), time.monotonic()
        try:
            test(Scene(args, folder))
            report.add(name, [])
        except Skipped as reason:
            skipped.append(f"{name} ({reason})")
        except Exception as error:
            traceback.print_exc()
            report.add(name, [f"{type(error).__name__}: {error}"])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{time.monotonic() - began:.1f} s  {name}", flush=True)
    for name in skipped:
        print(f"left out: {name}")
    return report.end() if report.trials else 77


if __name__ == "__main__":
    sys.exit(main())
