"""What the tests of tools/python/ckpt.py share: a store in a temporary folder, and comparing states bit for bit."""
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "tools" / "python"
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(MODULE))

import ckpt  # noqa: E402

SKIPPED = 77  # ctest calls a test that ends with this skipped


class Case(unittest.TestCase):
    """Each test runs in a new folder with a store in it."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ckpt-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        self.addCleanup(ckpt.close)
        ckpt.init()

    def save_and_load(self, state, **load_options):
        ckpt.save(state, wait=True)
        return ckpt.load(**load_options)

    def assert_same(self, got, wanted, where="state"):
        """Types, order, and every bit."""
        self.assertIs(type(got), type(wanted), where)
        if isinstance(wanted, dict):
            self.assertEqual([(type(k), k) for k in got], [(type(k), k) for k in wanted], where)
            for key in wanted:
                self.assert_same(got[key], wanted[key], f"{where}.{key}")
            if hasattr(wanted, "__dict__"):
                self.assert_same(vars(got), vars(wanted), where + ".__dict__")
        elif isinstance(wanted, (list, tuple)):
            self.assertEqual(len(got), len(wanted), where)
            for i, (a, b) in enumerate(zip(got, wanted)):
                self.assert_same(a, b, f"{where}[{i}]")
        elif type(wanted).__module__.split(".")[0] == "torch":
            self.assertEqual((got.dtype, got.shape, got.device), (wanted.dtype, wanted.shape, wanted.device), where)
            self.assertEqual(torch_bytes(got), torch_bytes(wanted), where)
        elif hasattr(wanted, "dtype"):
            self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape), where)
            self.assertEqual(got.tobytes(), wanted.tobytes(), where)
        elif isinstance(wanted, float):
            self.assertEqual(struct.pack("<d", got), struct.pack("<d", wanted), where)
        else:
            self.assertEqual(got, wanted, where)

    def assert_error(self, code, call, *arguments, **options):
        with self.assertRaises(ckpt.Error) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception

    def run_python(self, script, *arguments, **environment):
        script = f"import sys; sys.path.insert(0, {str(MODULE)!r})\n" + script
        return subprocess.run([sys.executable, "-B", "-c", script, *arguments], env={**os.environ, **environment},
                              capture_output=True, text=True, timeout=120)

    def stop_writer(self):
        """Until the returned function is called, saves stand still as during a prune, whose lease is held here."""
        F_OFD_SETLK = 37
        path = self.folder / ".ckpt" / "intents" / "prune.lease"
        file = open(path, "w")
        fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

        def go():
            path.unlink()
            file.close()
        return go

    def await_save_in_flight(self):
        intents = self.folder / ".ckpt" / "intents"
        while len(list(intents.glob("*.lease"))) < 2:
            time.sleep(0.001)


def damage_packs(kept=()):
    """In their first coded bytes, so that they can still be opened; not those of the names `kept`."""
    for name in set(os.listdir(".ckpt/packs")) - set(kept):
        with open(f".ckpt/packs/{name}", "r+b") as file:
            file.seek(40)
            byte = file.read(1)[0]
            file.seek(40)
            file.write(bytes([byte ^ 0x10]))


def torch_bytes(tensor):
    import torch
    return tensor.detach().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()


def main():
    unittest.main(verbosity=2)
