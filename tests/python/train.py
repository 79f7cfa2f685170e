"""A small training that saves every 5 steps in the background and resumes: train.py FOLDER STEPS [NOSAVE].

Prints `step N` after each step, and at the end the SHA-256 of all that it has come to."""
import hashlib
import os
import sys

import torch
from ckpt_case import ckpt, torch_bytes

SAVE_EVERY = 5


def digest(tree, into):
    if isinstance(tree, dict):
        for key in tree:
            into.update(repr(key).encode())
            digest(tree[key], into)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            digest(item, into)
    else:
        into.update(torch_bytes(tree) if isinstance(tree, torch.Tensor) else repr(tree).encode())
    return into.hexdigest()


def main(folder, steps, save=True):
    os.chdir(folder)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                torch.nn.Dropout(0.2), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [10, 20])
    step = 0
    if save and ckpt.log():
        state = ckpt.load()
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"])
        step = state["step"]
    print(f"from {step}", flush=True)
    while step < steps:
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 3, 8, 8)), torch.randint(10, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        step += 1
        if save and step % SAVE_EVERY == 0:
            ckpt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                       "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "step": step}, step=step)
            if step == SAVE_EVERY:
                ckpt.wait()  # from here on there is something to resume from
        print(f"step {step}", flush=True)
    print(digest([model.state_dict(), optimizer.state_dict(), torch.get_rng_state()], hashlib.sha256()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), len(sys.argv) == 3)
