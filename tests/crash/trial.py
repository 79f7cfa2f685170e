"""What the crash tests share: running ckpt, and the proof that a store has lost nothing."""
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "trajectory-tiny"
TIMEOUT_S = 60
SNAPSHOT_NAME = re.compile(r"\d{8}-([0-9a-f]{64})\.json")
PACK_NAME = re.compile(r"([0-9a-f]{64})\.pack")
TMP_NAME = re.compile(r".+\.\d+\.[0-9a-f]{16}\.tmp")
SPACE_WANTED = 400 << 20
LEASES = {"prune.lease", "repair.lease", "repack.lease"}  # a dead one's is taken over by the next of its kind
MEMORY_MAX = 96 << 20  # above what `ckpt version` takes


def scratch_folder():
    """Where trials live: in memory where there is room, as the shim plays the disk."""
    shm = Path("/dev/shm")
    if "TMPDIR" not in os.environ and shm.is_dir() and os.access(shm, os.W_OK):
        if shutil.disk_usage(shm).free > SPACE_WANTED:
            return Path(tempfile.mkdtemp(prefix="ckpt-crash-", dir=shm))
    return Path(tempfile.mkdtemp(prefix="ckpt-crash-")).resolve()


@dataclass
class Done:
    code: int  # -9: killed
    out: str
    err: str

    def __str__(self):
        return f"exit {self.code}: {(self.err or self.out).strip()}"


class Program:
    """The ckpt to test, run in one folder."""

    def __init__(self, path, always=None):
        self.path = os.path.abspath(path)
        self.always = always or {}  # environment of every run

    def environment(self, extra=None):
        env = {key: value for key, value in os.environ.items() if not key.startswith("CKPT_")}
        env.update(CKPT_THREADS="2", LC_ALL="C.UTF-8", TZ="UTC", OMP_WAIT_POLICY="passive")
        env.update(self.always)
        env.update(extra or {})
        return env

    def run(self, root, *words, env=None, program=None, prefix=()):
        done = subprocess.run([*prefix, program or self.path, *map(str, words)], cwd=root, env=self.environment(env),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=TIMEOUT_S, text=True, errors="replace")
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, root, *words, env=None, program=None):
        return subprocess.Popen([program or self.path, *map(str, words)], cwd=root, env=self.environment(env),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def must(self, root, *words, **more):
        done = self.run(root, *words, **more)
        if done.code != 0:
            raise AssertionError(f"`ckpt {' '.join(map(str, words))}`: {done}")
        return done.out

    def save(self, root, *words):
        """The id of the new checkpoint."""
        return json.loads(self.must(root, "--json", "save", *words))["id"]


def peak_memory(ckpt, meter, root, *words):
    done = subprocess.run([meter, ckpt.path, *map(str, words)], cwd=root, env=ckpt.environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise AssertionError(f"`ckpt {' '.join(map(str, words))}`: exit {done.returncode}: {done.stderr}")
    return int(done.stdout)


def memory_faults(ckpt, meter, root, *words):
    """Runs a command under `meter` (peak_memory.c), which must succeed in MEMORY_MAX."""
    base = peak_memory(ckpt, meter, root, "version")
    peak = peak_memory(ckpt, meter, root, *words)
    print(f"{' '.join(words)}: {(peak - base) / 2**20:.1f} MiB above `ckpt version` ({base / 2**20:.1f} MiB)")
    return [f"{peak - base} bytes"] if peak - base > MEMORY_MAX else []


def manifest(folder):
    """Everything below a folder but a store: path -> what it is."""
    found = {}
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".ckpt"]
        for name in folders + names:
            path = Path(here, name)
            relative = str(path.relative_to(folder))
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[relative] = ("link", os.readlink(path))
            elif stat.S_ISDIR(mode):
                found[relative] = ("folder",)
            else:
                found[relative] = ("file", hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def manifest_of(root, *paths):
    """What a save of these paths, relative to root, must give back."""
    whole = manifest(root)
    wanted = {}
    for path in paths:
        for name in whole:
            if name == path or name.startswith(path + "/"):
                wanted[name] = whole[name]
                for parent in list(Path(name).parents)[:-1]:
                    wanted[str(parent)] = ("folder",)
    return wanted


def without_tmp(tree):
    return {name: what for name, what in tree.items() if not TMP_NAME.fullmatch(Path(name).name)}


def checkpoints(root):
    """Ids of the snapshots in a store."""
    matches = [SNAPSHOT_NAME.fullmatch(name) for name in os.listdir(Path(root, ".ckpt/snapshots"))]
    return {match.group(1) for match in matches if match}


def newest_first(root):
    """Ids of the snapshots in a store, in the order of `log`."""
    names = sorted(os.listdir(Path(root, ".ckpt/snapshots")), reverse=True)
    return [match.group(1) for match in map(SNAPSHOT_NAME.fullmatch, names) if match]


class Training:
    """States of a model, each like one before, so that saves share and differ."""

    def __init__(self, random):
        self.random = random
        self.states = [bytearray((GOLDEN / f"model_epoch_{epoch}.safetensors").read_bytes()) for epoch in (1, 2, 3)]

    def step(self, path):
        """Writes the next state."""
        state = self.random.choice(self.states)
        for _ in range(200):
            state[self.random.randrange(len(state) // 2, len(state))] = self.random.randrange(256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(state)


def tag_of(root, name):
    path = Path(root, ".ckpt/tags", name)
    return path.read_text() if path.exists() else None


@dataclass
class Promise:
    """What must hold of a store, whatever happened to it."""
    known: dict  # id -> manifest: committed before
    removable: set = field(default_factory=set)  # ids of known that may be gone
    new: list = field(default_factory=list)  # manifests that checkpoints not in known may have
    new_max: int = 1


def names_are_final(root):
    """No half file stands under a final name, and nothing else has crept in."""
    faults = []
    store = Path(root, ".ckpt")
    for path in (store / "packs").iterdir():
        match = PACK_NAME.fullmatch(path.name)
        if not match:
            faults.append(f"packs/{path.name}: not the name of a pack")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != match.group(1):
            faults.append(f"packs/{path.name}: these bytes have another SHA-256")
    for path in (store / "snapshots").iterdir():
        if not SNAPSHOT_NAME.fullmatch(path.name):
            faults.append(f"snapshots/{path.name}: not the name of a snapshot")
        else:
            json.loads(path.read_text())
    for path in (store / "tags").iterdir():
        if not re.fullmatch(r"[0-9a-f]{64}\n", path.read_text()):
            faults.append(f"tags/{path.name}: not a tag")
    for path in (store / "tmp").iterdir():
        if not TMP_NAME.fullmatch(path.name):
            faults.append(f"tmp/{path.name}: not the name of a temporary file")
    return faults


def restores(program, root, id, wanted):
    """Does a checkpoint give back exactly these files?"""
    with tempfile.TemporaryDirectory(dir=Path(root).parent, prefix="restored-") as out:
        done = program.run(root, "restore", id, "-o", out)
        if done.code != 0:
            return [f"restore {id[:8]}: {done}"]
        got = manifest(out)
    if wanted is not None and got != wanted:
        return [f"restore {id[:8]} gives {sorted(got.items())} instead of {sorted(wanted.items())}"]
    return [] if wanted is not None else got


def store_faults(program, root, promise, complete=False):
    """Breaches of the promise. `complete`: the operation has said that all is done."""
    faults = names_are_final(root)
    verified = program.run(root, "verify", "--full")
    if verified.code != 0:
        faults.append(f"verify --full: {verified}")
    present = checkpoints(root)
    for id, wanted in promise.known.items():
        if id in present:
            faults += restores(program, root, id, wanted)
            if complete and id in promise.removable:
                faults.append(f"{id[:8]} is still there")
        elif id not in promise.removable:
            faults.append(f"checkpoint {id[:8]} is lost")
    fresh = present - set(promise.known)
    for id in fresh:
        got = restores(program, root, id, None)
        if isinstance(got, list):
            faults += got
        elif got not in promise.new:
            faults.append(f"the new checkpoint {id[:8]} holds {sorted(got.items())}")
    if len(fresh) > promise.new_max or (complete and promise.new and len(fresh) != promise.new_max):
        faults.append(f"{len(fresh)} new checkpoints instead of {promise.new_max}")
    return faults


def goes_on(program, root):
    """The next save works, and prune clears what the crash left behind."""
    faults = []
    Path(root, "next.bin").write_bytes(b"what comes after " * 4096)
    done = program.run(root, "--json", "save", "next.bin")
    if done.code != 0:
        return [f"the next save: {done}"]
    faults += restores(program, root, json.loads(done.out)["id"], manifest_of(root, "next.bin"))
    before = checkpoints(root)
    done = program.run(root, "prune", "--keep", "last 10000", "--yes")
    if done.code != 0:
        faults.append(f"prune: {done}")
    if checkpoints(root) != before:
        faults.append("prune removed checkpoints that it was told to keep")
    for folder in ("tmp", "intents"):
        left = set(os.listdir(Path(root, ".ckpt", folder))) - LEASES
        if left:
            faults.append(f"prune left {', '.join(left)} in {folder}/")
    done = program.run(root, "verify")
    if done.code != 0:
        faults.append(f"verify after prune: {done}")
    return faults


def error_faults(done, hint_wanted):
    """One line that says what failed, then at most one hint."""
    lines = [line for line in done.err.splitlines() if not line.startswith(("note: ", "warning: "))]
    faults = []
    if sum(line.startswith("ckpt: ") for line in lines) != 1 or len(lines) > 2:
        faults.append(f"the error is not one line: {done.err!r}")
    hints = [line for line in lines if line.startswith("hint: ")]
    if len(hints) != len(lines) - 1 or (hint_wanted and not hints):
        faults.append(f"the error has no hint, or more than that: {done.err!r}")
    return faults


class Report:
    """Counts trials and prints what failed."""

    def __init__(self, faults_max=40):
        self.trials = 0
        self.faults = []
        self.faults_max = faults_max

    def add(self, what, faults):
        self.trials += 1
        for fault in faults:
            self.faults.append(f"{what}: {fault}")
            if len(self.faults) <= self.faults_max:
                print(f"FAILED {what}: {fault}", flush=True)

    def end(self):
        print(f"{self.trials} trials, {len(self.faults)} faults")
        return 1 if self.faults else 0
