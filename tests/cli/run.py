#!/usr/bin/env python3
"""Runs the command line cases: run.py [--ckpt PROGRAM] [--update] [CASE]...; a CASE may hold `*`.

A case is a folder below cases/:

  cmd           shell script, run by `sh -eu` in an empty folder, with ckpt first in PATH and GOLDEN the golden inputs
  exit          the expected exit status of cmd; 0 without this file
  stdout.exact  what stdout must be, byte for byte; or
  stdout.glob   line by line, where `*` stands for any text and a line `...` for any number of lines
  stderr.exact  stderr.glob  the same for stderr

Without stdout.* (stderr.*) that stream must be empty. --update rewrites the .exact files of the cases named, to be
read before they are kept: expectations are promises of the documentation, not what the program happens to print.

Where the program was built without training, the cases of it are left out, and else those of a program without. When
none is left the exit status is 77: skipped.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 120
TRAINING = ("train", "resume", "eval", "predict")  # first words of the cases that train
UNTRAINED = ("untrained",)  # and of those for a program that cannot
SKIPPED = 77


def line_matches(pattern, line):
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), line, re.S) is not None


def lines_match(patterns, lines):
    """Do the lines fit the patterns? Rows of the table: which prefixes of `lines` fit the patterns so far."""
    fits = [True] + [False] * len(lines)
    for pattern in patterns:
        if pattern == "...":
            first = fits.index(True) if True in fits else len(fits)
            fits = [i >= first for i in range(len(fits))]
        else:
            fits = [False] + [fits[i] and line_matches(pattern, line) for i, line in enumerate(lines)]
    return fits[-1]


def read_text(path):
    return path.read_bytes().decode("utf-8", "surrogateescape")


def check_stream(case, name, got, update):
    exact, glob = case / f"{name}.exact", case / f"{name}.glob"
    if glob.exists():
        expected = read_text(glob)
        good = lines_match(expected.split("\n"), got.split("\n"))
    else:
        expected = read_text(exact) if exact.exists() else ""
        good = got == expected
        if not good and update:
            exact.write_bytes(got.encode("utf-8", "surrogateescape"))
    return [] if good else [f"{name} is", indented(got), "  but should be", indented(expected)]


def indented(text):
    return "\n".join("    | " + line for line in text.split("\n")) if text else "    | (nothing)"


def environment(ckpt, scratch):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("CKPT_") and key not in ("NO_COLOR", "COLUMNS", "LINES")}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
        env.setdefault(name, "")
    env.update(PATH=f"{ckpt.parent}:{env.get('PATH', '/usr/bin:/bin')}", GOLDEN=str(HERE.parent / "golden"),
               HOME=str(scratch), LC_ALL="C.UTF-8", TZ="UTC", CKPT_THREADS="2",
               OMP_WAIT_POLICY="passive")  # other cases run at the same time
    return env


def run_case(case, ckpt, update):
    """A list of lines that say what is wrong; empty when the case passes."""
    scratch = Path(tempfile.mkdtemp(prefix="ckpt-cli-"))
    try:
        done = subprocess.run(["sh", "-eu", str(case / "cmd")], cwd=scratch, env=environment(ckpt, scratch),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [f"ran for more than {TIMEOUT_S} s"]
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", str(scratch)], check=False)
        shutil.rmtree(scratch, ignore_errors=True)
    faults = []
    expected = int(read_text(case / "exit")) if (case / "exit").exists() else 0
    if done.returncode != expected:
        faults.append(f"exit status is {done.returncode} but should be {expected}")
    for name, got in (("stdout", done.stdout), ("stderr", done.stderr)):
        faults += check_stream(case, name, got.decode("utf-8", "surrogateescape"), update)
    return faults


def cases_that_fit(cases, ckpt):
    """Without those that this build of the program cannot pass."""
    def subject(case):
        return case.name.split("_")[0]

    if not any(subject(case) in TRAINING + UNTRAINED for case in cases):
        return cases
    done = subprocess.run([ckpt, "train", "--print", "mnist-cnn"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    left_out = TRAINING if b"built without training" in done.stderr else UNTRAINED
    return [case for case in cases if subject(case) not in left_out]


def main():
    parser = argparse.ArgumentParser(description="Runs the command line cases.")
    parser.add_argument("--ckpt", type=Path, default=shutil.which("ckpt"), help="the program; else the first in PATH")
    parser.add_argument("--update", action="store_true", help="rewrite the .exact files of cases that fail")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("case", nargs="*", help="names of cases; all without any")
    args = parser.parse_args()
    if not args.ckpt or not Path(args.ckpt).exists():
        parser.error("no ckpt: name it with --ckpt")
    cases = sorted({cmd.parent for name in args.case or ["*"] for cmd in (HERE / "cases").glob(name + "/cmd")})
    ckpt = Path(args.ckpt).resolve()
    found = len(cases)
    cases = cases_that_fit(cases, ckpt)
    if len(cases) < found:
        print(f"{found - len(cases)} cases are not for this build")
        if not cases:
            return SKIPPED
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda case: run_case(case, ckpt, args.update), cases)
    for case, faults in zip(cases, results):
        if faults:
            failed += 1
            print(f"FAIL {case.name}")
            print("\n".join("  " + fault if not fault.startswith("  ") else fault for fault in faults))
    print(f"{len(cases) - failed} of {len(cases)} cases pass")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
