#!/usr/bin/env python3
"""A PyTorch training that can be killed at any moment and started again: it goes on to the same bits.

    python3 resume_torch.py [EPOCHS]

Needs PyTorch, and ckpt.py and ckpt_torch.py where Python finds them (docs/python.md)."""
import hashlib
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

import ckpt_torch

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(640, 8)
dataset = TensorDataset(x, x.sum(1, keepdim=True))

model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
sampler = ckpt_torch.Sampler(len(dataset), seed=0)
loader = DataLoader(dataset, batch_size=48, sampler=sampler)

run = ckpt_torch.Run(model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler, every=5)
print("resumed at step", run.resume(), flush=True)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
while sampler.epoch < epochs:
    for x, y in run.batches(loader):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.step(meta={"loss": loss.item()})
        print("step", run.steps, flush=True)
    scheduler.step()
run.finish()

digest = hashlib.sha256()
for tensor in model.state_dict().values():
    digest.update(tensor.numpy().tobytes())
print(digest.hexdigest())
