#!/usr/bin/env python3
"""tools/python/ckpt_transformers.py beside the Trainer of transformers, which is a package of PyPI."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ckpt_case import MODULE, ROOT, SKIPPED, Case, ckpt, damage_packs, main

try:
    import accelerate  # noqa: F401: the Trainer needs it
    import torch
    import transformers  # noqa: F401
except ImportError as why:
    print(f"skipped: {why} (transformers and accelerate of PyPI, see docs/testing.md)")
    sys.exit(SKIPPED)

import ckpt_transformers

EXAMPLE = ROOT / "docs" / "examples" / "resume_transformers.py"


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


class Trainer(Case):
    def example(self, steps):
        run = subprocess.run([sys.executable, "-B", EXAMPLE, str(steps)], capture_output=True, text=True, timeout=160,
                             env={**os.environ, "PYTHONPATH": str(MODULE), "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_each_folder_of_the_trainer_is_kept_and_brought_back_on_a_machine_that_has_none(self):
        self.assertIn("resuming from None", self.example(10))
        rows = ckpt.log()
        self.assertEqual([row.step for row in rows], [10, 5])
        self.assertTrue(all(float(row.meta["eval_loss"]) > 0 and row.meta["trainer.folder"] for row in rows), rows)
        wanted = tree("runs/parity/checkpoint-10")
        shutil.rmtree("runs")
        self.assertEqual(ckpt_transformers.latest_checkpoint("runs/parity"), "runs/parity/checkpoint-10")
        self.assertEqual(tree("runs/parity/checkpoint-10"), wanted)
        self.assertEqual(os.listdir("runs/parity"), ["checkpoint-10"])
        self.assertIn("resuming from runs/parity/checkpoint-10", self.example(15))
        self.assertEqual(ckpt.log()[0].step, 15)

    def test_a_half_written_folder_is_set_aside_and_a_damaged_newest_checkpoint_passed_over(self):
        self.example(5)
        kept = os.listdir(".ckpt/packs")
        self.example(10)
        with open("runs/parity/checkpoint-10/model.safetensors", "r+b") as file:
            file.truncate(100)
        self.assertEqual(ckpt_transformers.latest_checkpoint("runs/parity"), "runs/parity/checkpoint-10")
        self.assertGreater(os.path.getsize("runs/parity/checkpoint-10/model.safetensors"), 100)
        self.assertEqual(os.path.getsize("runs/parity/replaced-checkpoint-10/model.safetensors"), 100)
        damage_packs(kept)
        with self.assertWarns(RuntimeWarning):
            self.assertEqual(ckpt_transformers.latest_checkpoint("elsewhere"), "elsewhere/checkpoint-5")


class Failures(Case):
    class Arguments:
        output_dir = "out"

    class State:
        is_world_process_zero, global_step, log_history, epoch = True, 3, [], 0.5

    def test_a_folder_that_cannot_be_saved_is_a_warning_and_an_error_if_asked_for(self):
        with self.assertWarnsRegex(RuntimeWarning, "checkpoint-3 is not in the store"):
            ckpt_transformers.CheckpointCallback().on_save(self.Arguments, self.State, None)
        self.assert_error(ckpt.NOTFOUND, ckpt_transformers.CheckpointCallback(strict=True).on_save, self.Arguments,
                          self.State, None)

    def test_a_checkpoint_of_something_else_is_refused(self):
        ckpt.save({"x": torch.ones(2)}, wait=True)
        self.assert_error(ckpt.USAGE, ckpt_transformers.latest_checkpoint, "out")


if __name__ == "__main__":
    main()
