"""ckpt_torch: a PyTorch training that goes on, to the bit, after it was killed. Thin, over ckpt.py, which lies beside it.

    import ckpt_torch

    sampler = ckpt_torch.Sampler(len(dataset), seed=0)
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, sampler=sampler)
    run = ckpt_torch.Run(model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler)
    run.resume()                             # the newest checkpoint, if there is one
    while sampler.epoch < 10:
        for x, y in run.batches(loader):     # from where the checkpoint was
            ...                              # forward, backward, optimizer.step()
            run.step()                       # counts; every 50 steps a save in the background
        scheduler.step()
    run.finish()

What a checkpoint holds: the state_dict() of all that Run was given, the step, and the state of every random number
generator. docs/python.md is the guide."""
import hashlib
import random
import signal
import sys
import threading

import torch

import ckpt

__all__ = ["Run", "Sampler", "rng_state", "set_rng_state"]

EXIT_RESUME = 7  # status of a program that was told to end, has saved, and wants to be started again


# ---- Random numbers ----


def rng_state():
    """The state of every generator that a training draws from: Python's, NumPy's (where it is loaded), PyTorch's on the
    CPU and on each GPU. A state that ckpt.save takes."""
    state = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state(legacy=False)
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state):
    """Sets the generators that `state` speaks of and this machine has. GPUs are set only if there are as many as there
    were: a stream that belongs to another device would be no better than a new one."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy
        numpy.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


# ---- The order of the samples ----


class Sampler(torch.utils.data.Sampler):
    """Gives the samples 0 ... length - 1 in an order that is a function of `seed` and `epoch` alone, beginning with
    `position`, the number of samples of this epoch that were trained with. What the loader has only fetched in advance
    does not count: Run.batches, or advance() by hand, says what was used."""

    def __init__(self, length, seed=0, shuffle=True):
        self.length, self.seed, self.shuffle = length, seed, shuffle
        self.epoch = self.position = 0

    def __iter__(self):
        if not self.shuffle:
            return iter(range(self.position, self.length))
        # Hashed, since PyTorch's generator on the CPU looks at the lower 32 bits of a seed only.
        mixed = hashlib.sha256(f"{self.seed} {self.epoch}".encode()).digest()[:4]
        generator = torch.Generator().manual_seed(int.from_bytes(mixed, "little"))
        return iter(torch.randperm(self.length, generator=generator)[self.position:].tolist())

    def __len__(self):
        return self.length - self.position

    def advance(self, samples):
        self.position = min(self.position + samples, self.length)

    def next_epoch(self):
        self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self):
        return {name: getattr(self, name) for name in ("length", "seed", "shuffle", "epoch", "position")}

    def load_state_dict(self, state):
        if state["length"] != self.length:
            raise ckpt.Error(ckpt.USAGE, f"the checkpoint was made with {state['length']} samples, here are {self.length}",
                             "resume with the data set that the training began with")
        self.seed, self.shuffle = state["seed"], state["shuffle"]
        self.epoch, self.position = state["epoch"], state["position"]


# ---- The training ----


class Run:
    """A training as its parts, by name: anything with state_dict() and load_state_dict(), such as models, optimizers,
    schedulers, gradient scalers, a Sampler.

    `every` steps a save begins in the background; `store` is as for ckpt.save, and is made here when there is none. On
    one of `signals` the next step() saves, waits until that is durable, and ends the program with status 7."""

    def __init__(self, every=50, store=None, signals=(signal.SIGTERM,), **parts):
        for name, part in parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise ckpt.Error(ckpt.USAGE, f"{name}: a {type(part)} has no state_dict() and load_state_dict()")
        if "step" in parts or "rng" in parts:
            raise ckpt.Error(ckpt.USAGE, "step and rng are names of the run's own")
        self.parts, self.every, self.store, self.steps = parts, every, store, 0
        self.stopped = None  # the signal that came
        self._rng = None  # to be set when the first batch is about to be fetched
        self._before = {}
        ckpt.ensure(store)
        if signals and threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in signals}

    def _on_signal(self, number, _frame):
        self.stopped = number

    def state(self):
        return {**{name: part.state_dict() for name, part in self.parts.items()}, "step": self.steps,
                "rng": rng_state() if self._rng is None else self._rng}

    def resume(self, name="latest"):
        """Takes all parts to where the checkpoint was; returns its step, or 0 when the store has none yet."""
        try:
            state = ckpt.load(name, self.store)
        except ckpt.Error as why:
            if why.code == ckpt.NOTFOUND and name == "latest" and not ckpt.log(self.store):
                return 0
            raise
        missing = [part for part in (*self.parts, "step", "rng") if part not in state]
        if missing:
            raise ckpt.Error(ckpt.NOTFOUND, f"checkpoint {name} has no {', '.join(missing)}",
                             f"it has: {', '.join(map(str, state))}; when it is of another training, ckpt.init() here "
                             "or store= gives this one a store of its own")
        for part, object_ in self.parts.items():
            object_.load_state_dict(state[part])
        self.steps, self._rng = state["step"], state["rng"]
        return self.steps

    def batches(self, loader):
        """The batches of this epoch that are left. Afterwards the Sampler among the parts is at the next epoch."""
        sampler = next((part for part in self.parts.values() if isinstance(part, Sampler)), None)
        batches = iter(loader)
        if self._rng is not None:  # only now: making the iterator draws a number itself
            set_rng_state(self._rng)
            self._rng = None
        for batch in batches:
            if sampler is not None:
                sampler.advance(loader.batch_size)
            yield batch
        if sampler is not None:
            sampler.next_epoch()

    def step(self, meta=None):
        """After each step of the optimizer. Saves where it is time to; `meta` as for ckpt.save."""
        self.steps += 1
        if self.stopped is None and self.steps % self.every == 0:
            self.save(meta)
        self.check(meta)

    def check(self, meta=None):
        """Also inside long evaluations: when a signal has come, saves and ends the program."""
        if self.stopped is not None:
            self.save(meta, importance="keep", wait=True)
            raise SystemExit(EXIT_RESUME)

    def save(self, meta=None, **options):
        """Saves now; `options` are those of ckpt.save."""
        return ckpt.save(self.state(), step=self.steps, store=self.store, meta=meta, **options)

    def finish(self, meta=None, tag=None):
        """The last save, durable when this returns. Signals have their former meaning again."""
        saved = self.save(meta, tag=tag, importance="keep", wait=True)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        return saved
