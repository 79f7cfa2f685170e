"""Trains ResNet-18 for CIFAR-10 at full width for 100 steps of 32 images and saves the state: the pair of `ckpt bench
store`. The images are noise of the right shape: what the bench needs is a real optimizer's state of real size.

    train_pair.py FOLDER             writes FOLDER/state_0050.pt, _0060 ... _0100.pt, about 89 MB each
    train_pair.py FOLDER --decay     decay_0080.pt, _0090 and _0100 of a learning rate that falls to 0 along a cosine, as
                                     at the end of a training
"""
import os
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def main():
    folder = sys.argv[1]
    torch.manual_seed(1)
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100) if "--decay" in sys.argv else None
    centres = torch.randn(10, 3, 32, 32)
    for step in range(1, 101):
        labels = torch.randint(0, 10, (32,))
        images = centres[labels] + torch.randn(32, 3, 32, 32)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if decay:
            decay.step()
        if step >= (80 if decay else 50) and step % 10 == 0:
            path = os.path.join(folder, f"{'decay' if decay else 'state'}_{step:04}.pt")
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, path + ".tmp")
            os.replace(path + ".tmp", path)
            print(f"step {step}: loss {loss.item():.3f}, {os.path.getsize(path)} bytes", flush=True)


main()
