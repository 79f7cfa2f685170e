#!/usr/bin/env python3
"""tools/python/ckpt_torch.py: the helpers for a PyTorch training, and their example."""
import os
import random
import signal
import subprocess
import sys

from ckpt_case import MODULE, ROOT, SKIPPED, Case, ckpt, main

try:
    import numpy
    import torch
except ImportError as why:
    print(f"skipped: {why} (python3-torch, python3-numpy)")
    sys.exit(SKIPPED)

import ckpt_torch

EXAMPLE = ROOT / "docs" / "examples" / "resume_torch.py"
EPOCHS = "40"  # of 14 steps: time enough for saves to be seen


def draw():
    """One number of every generator."""
    return [random.random(), numpy.random.rand(), numpy.random.normal(), torch.rand(1).item(), random.gauss(0, 1)]


class RandomNumbers(Case):
    def test_all_generators_go_on_where_they_were(self):
        draw()
        state = self.save_and_load({"rng": ckpt_torch.rng_state()})
        wanted = [draw() for _ in range(3)]
        ckpt_torch.set_rng_state(state["rng"])
        self.assertEqual([draw() for _ in range(3)], wanted)


class Order(Case):
    def test_an_epoch_holds_each_sample_once_in_an_order_of_its_own(self):
        sampler = ckpt_torch.Sampler(100, seed=3)
        first = list(sampler)
        self.assertEqual(sorted(first), list(range(100)))
        self.assertEqual(list(sampler), first)
        sampler.next_epoch()
        self.assertEqual(sorted(sampler), list(range(100)))
        self.assertNotEqual(list(sampler), first)
        self.assertNotEqual(list(ckpt_torch.Sampler(100, seed=4)), first)

    def test_the_rest_of_an_epoch_comes_after_what_was_used(self):
        sampler = ckpt_torch.Sampler(100, seed=3)
        whole = list(sampler)
        sampler.advance(30)
        other = ckpt_torch.Sampler(100)
        other.load_state_dict(self.save_and_load(sampler.state_dict()))
        self.assertEqual((list(other), len(other)), (whole[30:], 70))

    def test_another_data_set_is_refused(self):
        state = ckpt_torch.Sampler(100).state_dict()
        self.assert_error(ckpt.USAGE, ckpt_torch.Sampler(99).load_state_dict, state)

    def test_samples_fetched_in_advance_do_not_count(self):
        sampler = ckpt_torch.Sampler(64)
        loader = torch.utils.data.DataLoader(range(64), batch_size=8, sampler=sampler, num_workers=2)
        run = ckpt_torch.Run(sampler=sampler)
        batches = run.batches(loader)
        next(batches), next(batches)
        self.assertEqual(sampler.position, 16)
        batches.close()


class Parts(Case):
    def test_a_part_that_has_no_state_is_refused_by_name(self):
        error = self.assert_error(ckpt.USAGE, ckpt_torch.Run, model=torch.nn.Linear(1, 1), loss=3)
        self.assertIn("loss: ", error.message)

    def test_a_checkpoint_without_one_of_the_parts_is_refused_before_any_is_changed(self):
        model = torch.nn.Linear(1, 1)
        run = ckpt_torch.Run(model=model)
        run.finish()
        other = torch.nn.Linear(1, 1)
        before = other.weight.item()
        wider = ckpt_torch.Run(model=other, optimizer=torch.optim.SGD(other.parameters(), 0.1))
        why = self.assert_error(ckpt.NOTFOUND, wider.resume)
        self.assertIn("has no optimizer", why.message)
        self.assertIn("ckpt.init() here", why.hint)
        self.assertEqual(other.weight.item(), before)

    def test_a_new_store_is_a_new_start_and_a_wrong_name_is_not(self):
        run = ckpt_torch.Run(model=torch.nn.Linear(1, 1))
        self.assertEqual(run.resume(), 0)
        self.assert_error(ckpt.NOTFOUND, run.resume, "baseline")

    def test_a_store_is_made_where_there_is_none(self):
        os.makedirs("elsewhere")
        ckpt_torch.Run(model=torch.nn.Linear(1, 1), store="elsewhere").finish()
        self.assertEqual(len(ckpt.log("elsewhere")), 1)


class Killed(Case):
    def example(self, *arguments):
        return subprocess.Popen([sys.executable, "-B", EXAMPLE, *arguments], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": str(MODULE)})

    def output(self):
        with self.example(EPOCHS) as run:
            return run.communicate(timeout=160)[0]

    def test_the_example_comes_to_the_same_bits_however_often_it_is_killed(self):
        wanted = self.output().split()[-1]
        os.rename(".ckpt", "undisturbed")
        ckpt.init()
        snapshots = self.folder / ".ckpt" / "snapshots"
        for _ in range(3):
            before = len(os.listdir(snapshots))
            with self.example(EPOCHS) as run:
                for _ in run.stdout:
                    if len(os.listdir(snapshots)) > before:
                        run.send_signal(signal.SIGKILL)
            self.assertEqual(run.returncode, -signal.SIGKILL)
        output = self.output()
        self.assertRegex(output, r"^resumed at step [1-9]")
        self.assertEqual(output.split()[-1], wanted)
        self.assertRegex(wanted, "^[0-9a-f]{64}$")

    def test_on_sigterm_it_saves_its_very_step_and_ends_with_status_7(self):
        with self.example(EPOCHS) as run:
            for line in run.stdout:
                if line.strip() == "step 18":
                    run.send_signal(signal.SIGTERM)
                last = line
        self.assertEqual(run.returncode, 7)
        self.assertGreaterEqual(ckpt.log()[0].step, int(last.split()[1]))
        self.assertLess(ckpt.log()[0].step, 560)


if __name__ == "__main__":
    main()
