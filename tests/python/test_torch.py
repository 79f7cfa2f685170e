#!/usr/bin/env python3
"""tools/python/ckpt.py beside PyTorch."""
import copy
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from ckpt_case import GOLDEN, ROOT, SKIPPED, Case, ckpt, damage_packs, main, torch_bytes

try:
    import numpy
    import torch
except ImportError as why:
    print(f"skipped: {why} (python3-torch, python3-numpy)")
    sys.exit(SKIPPED)


def trained(make_optimizer):
    """A network and an optimizer that have seen three steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 2))
    optimizer = make_optimizer(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 5)).square().sum().backward()
        optimizer.step()
    return model, optimizer


class Tensors(Case):
    def test_tensors_of_every_type_come_back_bit_for_bit(self):
        names = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 "
                 "uint16 uint32 uint64 float8_e4m3fn float8_e5m2").split()
        bits = torch.arange(256, dtype=torch.uint8)  # all kinds of NaN among them
        state = {}
        for name in names:
            if not hasattr(torch, name):
                print(f"skipped: this PyTorch has no {name}")
                continue
            flat = (bits % 2 if name == "bool" else bits).view(getattr(torch, name))
            state[name] = {"flat": flat, "matrix": flat.reshape(4, -1), "point": flat[3], "empty": flat[:0],
                           "hollow": flat[:0].reshape(2, 0, 3)}
        self.assert_same(self.save_and_load(state), state)

    def test_views_are_saved_by_value(self):
        base = torch.arange(24.0).reshape(4, 6)
        state = {"transposed": base.t(), "slice": base[1:3, ::2], "expanded": base[:1].expand(5, 6),
                 "diagonal": base.diagonal(), "conjugate": torch.complex(base, base + 1).conj(),
                 "negative": torch.complex(base, base).conj().imag}
        self.assert_same(self.save_and_load(state), state)

    def test_parameters_come_back_as_plain_tensors(self):
        parameter = torch.nn.Parameter(torch.randn(3))
        got = self.save_and_load({"p": parameter, "g": torch.randn(2, requires_grad=True) * 2})
        self.assert_same(got["p"], parameter.detach())
        self.assertFalse(got["p"].requires_grad or got["g"].requires_grad)

    def test_arrays_stay_arrays_beside_tensors(self):
        state = {"t": torch.arange(3), "n": numpy.arange(3), "s": numpy.float32(0.1)}
        self.assert_same(self.save_and_load(state), state)

    def test_a_framework_may_be_chosen(self):
        state = {"t": torch.arange(3.0), "n": numpy.arange(3, dtype=">i4")}
        ckpt.save(state, wait=True)
        self.assert_same(ckpt.load(framework="numpy"), {"t": numpy.arange(3, dtype="f4"), "n": state["n"]})
        self.assert_same(ckpt.load(framework="torch"), {"t": state["t"], "n": torch.arange(3, dtype=torch.int32)})

    def test_what_cannot_be_saved_is_named_by_its_place(self):
        class Mine(torch.Tensor):
            pass
        for value in (torch.eye(3).to_sparse(), torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
                      torch.empty(2, device="meta"), torch.ones(2).as_subclass(Mine), torch.float32,
                      torch.zeros(2, dtype=torch.complex128), torch.Size([1]), torch.nn.Linear(1, 1)):
            error = self.assert_error(ckpt.USAGE, ckpt.save, {"model": [{"x": value}]})
            self.assertIn("model[0].x: cannot save", error.message)

    def test_tied_tensors_are_kept_once_and_come_back_tied(self):
        model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(100, 30), "head": torch.nn.Linear(30, 100, False)})
        model["head"].weight = model["embedding"].weight
        state = {**model.state_dict(), "view": model["head"].weight[:2], "turned": model["head"].weight.t()}
        self.assertEqual(ckpt.save(state, wait=True).tensors, 3)
        got = ckpt.load()
        self.assert_same(got, {key: tensor.detach() for key, tensor in state.items()})
        self.assertEqual(got["head.weight"].data_ptr(), got["embedding.weight"].data_ptr())
        a, b = torch.zeros(100, 30), torch.zeros(100, 30)
        ckpt.load(into={"embedding.weight": a, "head.weight": b})
        self.assert_same([a, b], [got["head.weight"], got["head.weight"]])

    def test_cuda_tensors_come_back_on_the_cpu(self):
        if not torch.cuda.is_available():
            self.skipTest("no GPU")
        tensor = torch.randn(1000, device="cuda")
        state = self.save_and_load({"x": tensor})
        self.assert_same(state["x"], tensor.cpu())
        ckpt.load(into={"x": tensor.zero_()})
        self.assert_same(tensor.cpu(), state["x"])


class Lossy(Case):
    def test_an_optimizer_in_bf16_comes_back_rounded_and_the_weights_exact(self):
        model, optimizer = trained(torch.optim.Adam)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        saved = ckpt.save(state, wait=True, optimizer="bf16")
        self.assertRegex(saved.lossy, r"^optimizer bf16: 12 tensors, largest relative error 0\.00\d+, rms 0\.00\d+$")
        loaded = ckpt.load()
        self.assert_same(loaded["model"], state["model"])
        for number, moments in state["optimizer"]["state"].items():
            for name, exact in moments.items():
                got = loaded["optimizer"]["state"][number][name]
                self.assert_same(got, exact if exact.numel() == 1 else exact.bfloat16().float(), f"{number}.{name}")

    def test_there_is_no_other_way_of_rounding(self):
        self.assert_error(ckpt.USAGE, ckpt.save, {"w": torch.ones(2)}, optimizer="fp8")
        self.assertEqual(ckpt.save({"w": torch.ones(2)}, wait=True).lossy, "")


class Training(Case):
    def test_states_of_optimizers_come_back_exactly(self):
        for make in (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.Adam(p, amsgrad=True),
                     torch.optim.AdamW, torch.optim.RMSprop):
            model, optimizer = trained(make)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                     "scheduler": torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 9]).state_dict()}
            got = self.save_and_load(state)
            self.assert_same(got, state)  # the model's is an OrderedDict with _metadata
            other_model, other_optimizer = trained(make)
            other_model.load_state_dict(got["model"])
            other_optimizer.load_state_dict(got["optimizer"])

    def test_what_the_next_step_changes_is_not_saved(self):
        model, optimizer = trained(lambda p: torch.optim.Adam(p))
        wanted = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        go = self.stop_writer()
        ckpt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        model(torch.randn(8, 5)).sum().backward()
        optimizer.step()
        self.assertNotEqual(torch_bytes(model.state_dict()["0.weight"]), torch_bytes(wanted["model"]["0.weight"]))
        go()
        ckpt.wait()
        self.assert_same(ckpt.load(), wanted)

    def test_a_network_is_filled_in_place(self):
        model, optimizer = trained(lambda p: torch.optim.SGD(p, 0.1))
        ckpt.save({"model": model.state_dict(), "n": 3}, wait=True)
        other = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 2))
        state = ckpt.load(into={"model": other.state_dict()})
        self.assert_same(other.state_dict(), model.state_dict())
        self.assertEqual(state["model"]["0.weight"].data_ptr(), other[0].weight.data_ptr())

    def test_tensors_that_are_not_plain_memory_are_filled_too(self):
        saved = {"x": torch.arange(6.0).reshape(2, 3), "c": torch.ones(2, dtype=torch.complex64) * 1j}
        ckpt.save(saved, wait=True)
        wide, conjugate = torch.zeros(3, 2), torch.zeros(2, dtype=torch.complex64).conj()
        ckpt.load(into={"x": wide.t(), "c": conjugate})
        self.assert_same(wide.t().contiguous(), saved["x"])
        self.assert_same(conjugate.resolve_conj(), saved["c"])

    def train(self, folder, *arguments):
        return subprocess.Popen([sys.executable, "-B", Path(__file__).with_name("train.py"), folder, *arguments],
                                stdout=subprocess.PIPE, text=True)

    def test_a_killed_training_goes_on_to_the_same_bits(self):
        undisturbed, _ = self.train(self.folder, "30", "no saves").communicate(timeout=120)
        for kill_at in ("step 8", "step 20", "step 23"):
            with self.train(self.folder, "30") as killed:
                for line in killed.stdout:
                    if line.strip() == kill_at:
                        killed.send_signal(signal.SIGKILL)
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        resumed, _ = self.train(self.folder, "30").communicate(timeout=120)
        self.assertRegex(resumed, r"^from (5|10|15|20)\n")
        self.assertEqual(resumed.split()[-1], undisturbed.split()[-1])
        self.assertRegex(undisturbed.split()[-1], "^[0-9a-f]{64}$")


class Files(Case):
    def flat(self, tree, prefix=""):
        """Tensors by their keys joined by dots, as torch.load has them."""
        if isinstance(tree, torch.Tensor):
            return {prefix: tree.detach()}
        items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else ()
        return {name: tensor for key, value in items
                for name, tensor in self.flat(value, f"{prefix}.{key}" if prefix else str(key)).items()}

    def test_a_file_of_torch_save_that_the_program_saved_is_read_by_name(self):
        model, optimizer = trained(lambda p: torch.optim.Adam(p))
        torch.save({"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
        subprocess.run([os.environ["CKPT_PROGRAM"], "-q", "save", "last.pt", "--step", "7"], check=True)
        got, wanted = ckpt.load("step:7"), self.flat(torch.load("last.pt"))
        self.assertEqual(set(got), set(wanted))
        for name, tensor in wanted.items():
            self.assert_same(got[name], tensor, name)

    def test_checkpoints_of_a_real_training_are_read_by_name(self):
        for name in ("checkpoint_epoch_1.pt", "adamw_bf16_step_30.pt"):
            shutil.copy(GOLDEN / "trajectory-tiny" / name, ".")
            ckpt.save(name)
            got, wanted = ckpt.load(), self.flat(torch.load(name))
            self.assertEqual(set(got), set(wanted))
            for key, tensor in wanted.items():
                self.assert_same(got[key], tensor, key)

    def test_a_flat_file_may_be_read_into_tensors(self):
        torch.save({"model": {"w": torch.arange(3.0)}}, "last.pt")
        ckpt.save("last.pt")
        w = torch.zeros(3)
        ckpt.load(into={"model": {"w": w}})
        self.assertEqual(w.tolist(), [0, 1, 2])


class Guide(Case):
    def test_the_example_of_the_guide_runs_and_resumes(self):
        example, = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S)
        for _ in range(2):
            run = self.run_python(example)
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
        self.assertEqual([(checkpoint.step, checkpoint.tags) for checkpoint in ckpt.log()][0], (20, ["final"]))

    def test_the_example_of_the_guide_resumes_from_the_newest_good_checkpoint(self):
        example, = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S)
        kept = ()
        for last in (15, 20):
            kept = os.listdir(".ckpt/packs")
            self.assertEqual(self.run_python(example.replace("step < 20", f"step < {last}")).returncode, 0)
        wanted = ckpt.load(framework="numpy")
        newest, before = ckpt.log()[:2]
        damage_packs(kept)
        run = self.run_python(example)
        self.assertEqual((run.returncode, run.stdout), (0, ""), run.stderr)
        self.assertRegex(run.stderr, f"RuntimeWarning: .*{newest.id[:8]}.*taking {before.id[:8]}")
        self.assert_same(ckpt.load(framework="numpy"), wanted)


if __name__ == "__main__":
    main()
