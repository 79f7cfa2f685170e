"""ckpt_transformers: keeps every checkpoint that a Hugging Face Trainer writes, and brings one back. Thin, over ckpt.py,
which lies beside it.

    from ckpt_transformers import CheckpointCallback, latest_checkpoint

    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[CheckpointCallback()])
    trainer.train(resume_from_checkpoint=latest_checkpoint(arguments.output_dir))

The Trainer goes on writing and removing its checkpoint-N folders (save_steps, save_total_limit=1 keeps its disk small);
each goes to the store once it is complete, as what changed since the one before. docs/python.md is the guide."""
import os
import shutil
import tempfile
import warnings

import transformers

import ckpt

__all__ = ["CheckpointCallback", "latest_checkpoint"]

FOLDER_KEY = "trainer.folder"  # meta: the path of the folder inside its checkpoint


class CheckpointCallback(transformers.TrainerCallback):
    """Saves each folder that the Trainer has written, with its step, its epoch and the metrics of the last evaluation,
    so that `best` finds `eval_loss` and its like.

    `store` is as for ckpt.save, and is made when there is none. A failure is a RuntimeWarning, since the Trainer has its
    folder still; with `strict` it is raised and ends the training."""

    def __init__(self, store=None, strict=False):
        self.store, self.strict = store, strict

    def on_train_begin(self, args, state, control, **_):
        if state.is_world_process_zero:
            ckpt.ensure(self.store)

    def on_save(self, args, state, control, **_):
        if not state.is_world_process_zero:
            return
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        try:
            ckpt.save(folder, step=state.global_step, store=self.store, meta={**_metrics(state), **_folder_meta(folder)})
        except ckpt.Error as why:
            if self.strict:
                raise
            warnings.warn(f"ckpt: {folder} is not in the store: {why}", RuntimeWarning, stacklevel=2)


def latest_checkpoint(output_dir, name="latest", store=None):
    """The path of a checkpoint-N folder for resume_from_checkpoint, brought back from the store if it is not in
    `output_dir` or differs there; None when the store has no checkpoint or is not there yet. A folder that differs, as a
    half-written one does, is kept as replaced-checkpoint-N."""
    try:
        found = ckpt.find(name, store)
    except ckpt.Error as why:
        if why.code in (ckpt.NOTFOUND, ckpt.NOSTORE) and name == "latest":
            return None
        raise
    os.makedirs(output_dir, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ckpt-restore-", dir=output_dir) as scratch:
        restored = ckpt.restore(name, out=scratch, store=store)
        folder = _meta_of(restored.id, store).get(FOLDER_KEY)
        if folder is None:
            raise ckpt.Error(ckpt.USAGE, f"checkpoint {found[:8]} was not made by a CheckpointCallback",
                             "`ckpt log` shows which have trainer.folder; when it is of another training, ckpt.init() here or "
                             "store= gives this one a store of its own")
        source, target = os.path.join(scratch, folder), os.path.join(output_dir, os.path.basename(folder))
        if os.path.exists(target):
            if _same_files(source, target):
                return target
            aside = os.path.join(output_dir, "replaced-" + os.path.basename(folder))
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(target, aside)
        os.rename(source, target)
    return target


def _folder_meta(folder):
    """Where ckpt.save puts a folder: at its relative path below the current folder, else at its last component."""
    inside = os.path.relpath(os.path.realpath(folder), os.path.realpath("."))
    return {FOLDER_KEY: os.path.basename(folder) if inside.startswith(os.pardir) else inside}


def _metrics(state):
    """What the newest evaluation said, and the epoch."""
    evaluated = next((row for row in reversed(state.log_history) if any(key.startswith("eval_") for key in row)), {})
    metrics = {key: value for key, value in evaluated.items() if isinstance(value, (int, float))
               and key.startswith("eval_") and not key.endswith(("_runtime", "_per_second"))}
    return metrics if state.epoch is None else {**metrics, "epoch": state.epoch}


def _meta_of(id_, store):
    return next((row.meta for row in ckpt.log(store) if row.id == id_), {})


def _same_files(a, b):
    names = sorted(os.path.relpath(os.path.join(at, name), a) for at, _, files in os.walk(a) for name in files)
    other = sorted(os.path.relpath(os.path.join(at, name), b) for at, _, files in os.walk(b) for name in files)
    return names == other and all(_same_bytes(os.path.join(a, name), os.path.join(b, name)) for name in names)


def _same_bytes(a, b):
    with open(a, "rb") as one, open(b, "rb") as two:
        while True:
            block, other = one.read(1 << 20), two.read(1 << 20)
            if block != other:
                return False
            if not block:
                return True
