"""The peer of `ckpt bench train`: the network and recipe of the preset mnist-cnn in PyTorch, as its users would write it,
with the faster of its two layouts and the data kept as bytes.

    train_mnist.py DATA [--epochs N] [--seed N] [--layout channels_last|default]

DATA is a folder with the four IDX files, plain or .gz. Prints one JSON object a line: for each epoch its mean loss,
images per second (whole epoch: order, batches, steps) and validation accuracy; at the end the test accuracy and the
peak memory of the process.
"""
import argparse
import gzip
import json
import os
import resource
import time

import numpy as np
import torch
from torch import nn

BATCH = 512


def read_idx(folder, name):
    path = os.path.join(folder, name)
    opener = open if os.path.exists(path) else gzip.open
    with opener(path if opener is open else path + ".gz", "rb") as file:
        data = file.read()
    rank = data[3]
    shape = np.frombuffer(data, ">u4", rank, 4)
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape).copy())


def accuracy(model, images, labels, layout):
    right = 0
    model.eval()
    with torch.no_grad():
        for at in range(0, len(images), BATCH):
            x = images[at : at + BATCH].unsqueeze(1).float().div_(255).contiguous(memory_format=layout)
            right += (model(x).argmax(1) == labels[at : at + BATCH]).sum().item()
    model.train()
    return right / len(images)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--layout", choices=["channels_last", "default"], default="channels_last")
    args = parser.parse_args()
    layout = torch.channels_last if args.layout == "channels_last" else torch.contiguous_format

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    images, labels = (read_idx(args.data, f"train-{n}") for n in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    labels = labels.long()
    split = torch.randperm(len(images))
    held, used = split[: len(images) // 10], split[len(images) // 10 :]
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(7744, 128), nn.ReLU(), nn.Linear(128, 10),
    ).to(memory_format=layout)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        begin = time.perf_counter()
        order = used[torch.randperm(len(used))]
        total = 0.0
        for at in range(0, len(order), BATCH):
            chosen = order[at : at + BATCH]
            x = images[chosen].unsqueeze(1).float().div_(255).contiguous(memory_format=layout)
            loss = nn.functional.cross_entropy(model(x), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        seconds = time.perf_counter() - begin
        row = {"epoch": epoch, "loss": total / len(order), "images_per_s": len(order) / seconds}
        row["val_acc"] = accuracy(model, images[held], labels[held], layout)
        print(json.dumps(row), flush=True)
    data_bytes = images.numel()
    images, labels = (read_idx(args.data, f"t10k-{n}") for n in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    row = {"test_acc": accuracy(model, images, labels.long(), layout), "torch": torch.__version__}
    row["data_bytes"] = data_bytes + images.numel()
    row["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(row), flush=True)


main()
