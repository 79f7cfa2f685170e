#!/usr/bin/env python3
"""Writes what a small training must do, computed by PyTorch in double precision.

expect_training.py GOLDEN_DIR     needs numpy and torch; reads GOLDEN_DIR/fashion-20 and writes
                                  GOLDEN_DIR/expected/training.txt, one row a line, columns between tabs:

    step        number  mean loss of the batch  how many of it were right
    validation  epoch   mean loss               how many were right
    weight      name    number of the element   value after the last step

The training is that of trainer_fixture.h: 15 of 20 samples in batches of 6, 6 and 3, three epochs, Adam.
"""
import sys
from pathlib import Path

import numpy
import torch
from expect_random import INIT, shuffled, split, words

SEED, BATCH, EPOCHS, COUNT, HELD, LR = 11, 6, 3, 20, 5, 0.01
FAN_IN = {"conv1": 9, "dense1": 50}


def first_weights(number, shape, fan_in):
    count = int(numpy.prod(shape))
    units = ((words(SEED, INIT, number, count) >> numpy.uint64(8)).astype("f8") + 0.5) / 2**24
    return torch.tensor(((2 * units - 1) / fan_in**0.5).astype("f4").astype("f8").reshape(shape))


def network():
    net = torch.nn.Sequential(torch.nn.MaxPool2d(4), torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(50, 10)).double()
    names = ("conv1.weight", "conv1.bias", "dense1.weight", "dense1.bias")
    with torch.no_grad():
        for number, (name, p) in enumerate(zip(names, net.parameters())):
            p.copy_(first_weights(number, tuple(p.shape), FAN_IN[name.split(".")[0]]))
    return net, dict(zip(names, net.parameters()))


def data(folder):
    images = numpy.fromfile(folder / "train-images-idx3-ubyte", "u1", offset=16).reshape(-1, 1, 28, 28)
    labels = numpy.fromfile(folder / "train-labels-idx1-ubyte", "u1", offset=8)
    return torch.tensor(images).double() / 255, torch.tensor(labels).long()


def result(net, images, labels):
    logits = net(images)
    return torch.nn.functional.cross_entropy(logits, labels), int((logits.argmax(1) == labels).sum())


def rows(golden):
    images, labels = data(golden / "fashion-20")
    train, held = (torch.tensor(part) for part in split(SEED, COUNT, HELD))
    net, weights = network()
    adam = torch.optim.Adam(net.parameters(), LR)
    step = 0
    for epoch in range(EPOCHS):
        order = train[torch.tensor(shuffled(SEED, epoch, len(train)))]
        for batch in order.split(BATCH):
            loss, right = result(net, images[batch], labels[batch])
            adam.zero_grad()
            loss.backward()
            adam.step()
            step += 1
            yield "step", step, float(loss.detach()), right
        with torch.no_grad():
            loss, right = result(net, images[held], labels[held])
        yield "validation", epoch, float(loss), right
    for name, p in weights.items():
        for i in range(0, p.numel(), 7):
            yield "weight", name, i, float(p.detach().flatten()[i])


def main(golden):
    with open(golden / "expected" / "training.txt", "w", encoding="ascii") as out:
        for row in rows(golden):
            out.write("\t".join(map(str, row)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
