#!/usr/bin/env python3
"""Writes ops.npz: what PyTorch computes for the operations of the training core.

make_ops.py     needs torch and numpy; run it only to add a case

Results are computed in double from numbers that are exact in float, and rounded once, which is what the reference
backend promises. Where double would say nothing (special values, the optimizer) it is float. All vectors are flat.
    NAME.in .out_grad            what comes in
    NAME.weights                 parameters, one behind the other
    NAME.out .in_grad .weight_grads
"""
import math
from pathlib import Path

import numpy
import torch
from torch import nn

ARRAYS = {}


def put(name, tensor, kind=numpy.float32):
    ARRAYS[name] = numpy.ascontiguousarray(tensor.detach().numpy().ravel().astype(kind))


def flat(tensors):
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def random(generator, *shape):
    """Numbers that are floats, in double."""
    return torch.randn(*shape, generator=generator).double()


def run(name, module, x, out_grad):
    x = x.clone().requires_grad_()
    out = module(x)
    out.backward(out_grad)
    put(name + ".in", x)
    put(name + ".out_grad", out_grad)
    put(name + ".out", out)
    put(name + ".in_grad", x.grad)
    if list(module.parameters()):
        put(name + ".weights", flat(module.parameters()))
        put(name + ".weight_grads", flat(p.grad for p in module.parameters()))


def layer(name, module, *shape):
    """A layer on random numbers; its first weights are floats too."""
    g = torch.Generator().manual_seed(sum(name.encode()))
    module = module.float().double()
    x = random(g, *shape)
    run(name, module, x, random(g, *module(x).shape))


def special():
    """Ties, NaN, infinities and -0 through maxpool and ReLU."""
    g = torch.Generator().manual_seed(5)
    x = torch.randint(-2, 3, (2, 3, 7, 9), generator=g).float()
    x = torch.where(x == 0, torch.where(torch.rand(x.shape, generator=g) < 0.5, -0.0, 0.0), x)
    places = torch.randperm(x.numel(), generator=g)
    x.view(-1)[places[:20]] = float("nan")
    x.view(-1)[places[20:30]] = float("inf")
    x.view(-1)[places[30:60]] = -float("inf")
    x[1, 2, :4, :4] = -float("inf")
    for name, module in (("maxpool_special", nn.MaxPool2d(2)), ("maxpool_overlap", nn.MaxPool2d((3, 2), 2)),
                         ("maxpool_gaps", nn.MaxPool2d(2, 3)), ("relu_special", nn.ReLU())):
        run(name, module, x, torch.randn(module(x).shape, generator=g))


def loss():
    g = torch.Generator().manual_seed(6)
    for name, scale in (("loss", 3), ("loss_large", 3000)):
        logits = (random(g, 7, 5) * scale).float().double().requires_grad_()
        labels = torch.randint(0, 5, (7,), generator=g)
        total = nn.functional.cross_entropy(logits, labels, reduction="sum")
        (total / 7).backward()
        put(name + ".logits", logits)
        put(name + ".labels", labels, numpy.uint8)
        put(name + ".sum", total, numpy.float64)
        put(name + ".grad", logits.grad)
        put(name + ".probabilities", logits.softmax(1))
        put(name + ".correct", (logits.argmax(1) == labels).sum(), numpy.float64)


def cnn():
    """One step of a small network: loss and all gradients."""
    torch.manual_seed(7)
    g = torch.Generator().manual_seed(8)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, (3, 2), padding=1), nn.ReLU(),
                        nn.Flatten(), nn.Linear(4 * 3 * 4, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    for p in net.parameters():
        p.data = p.data.float().double()
    x = random(g, 4, 1, 9, 8).requires_grad_()
    labels = torch.randint(0, 3, (4,), generator=g)
    logits = net(x)
    total = nn.functional.cross_entropy(logits, labels, reduction="sum")
    (total / 4).backward()
    put("cnn.in", x)
    put("cnn.labels", labels, numpy.uint8)
    put("cnn.weights", flat(net.parameters()))
    put("cnn.out", logits)
    put("cnn.sum", total, numpy.float64)
    put("cnn.in_grad", x.grad)
    put("cnn.weight_grads", flat(p.grad for p in net.parameters()))


ADAM_STEPS, ADAM_COUNT, LR, BETAS, EPS = 5, 200, 1e-3, (0.9, 0.999), 1e-8


def adam_inputs():
    g = torch.Generator().manual_seed(9)
    weights = torch.randn(ADAM_COUNT, generator=g)
    grads = torch.randn(ADAM_STEPS, ADAM_COUNT, generator=g) * 10.0 ** torch.randint(-12, 3, (ADAM_COUNT,), generator=g)
    grads[:, :5] = 0
    return weights, grads


def adam_optimizer():
    """torch.optim.Adam itself, whose kernels contract operations and have a square root of their own."""
    weights, grads = adam_inputs()
    w = nn.Parameter(weights.clone())
    optimizer = torch.optim.Adam([w], lr=LR, betas=BETAS, eps=EPS)
    steps = []
    for g in grads:
        w.grad = g.clone()
        optimizer.step()
        steps.append(w.detach().clone())
    put("adam.weights", weights)
    put("adam.grads", grads)
    put("adam.weights_after", torch.stack(steps))
    put("adam.exp_avg_after", optimizer.state[w]["exp_avg"])
    put("adam.exp_avg_sq_after", optimizer.state[w]["exp_avg_sq"])


def adam_rounded():
    """The same formula in NumPy, where every operation rounds by itself; the square root of PyTorch does not always."""
    weights, grads = (t.numpy() for t in adam_inputs())
    f = numpy.float32
    w, steps = weights.copy(), []
    m, v = numpy.zeros(ADAM_COUNT, f), numpy.zeros(ADAM_COUNT, f)
    for t, g in enumerate(grads, 1):
        m = m + f(1 - BETAS[0]) * (g - m)
        v = f(BETAS[1]) * v + f(1 - BETAS[1]) * g * g
        root = numpy.sqrt(v) / f(math.sqrt(1 - BETAS[1] ** t)) + f(EPS)
        w = w - f(LR / (1 - BETAS[0] ** t)) * m / root
        steps.append(w)
    for name, array in (("weights_after", numpy.stack(steps)), ("exp_avg_after", m), ("exp_avg_sq_after", v)):
        assert array.dtype == f
        put("adam_rounded." + name, torch.from_numpy(array))


torch.manual_seed(1)
layer("conv", nn.Conv2d(3, 4, 3), 2, 3, 7, 6)
layer("conv_1x1", nn.Conv2d(5, 3, 1), 1, 5, 3, 4)
layer("conv_stride", nn.Conv2d(3, 5, (3, 2), stride=2), 3, 3, 8, 7)
layer("conv_pad", nn.Conv2d(2, 4, 3, stride=2, padding=1), 2, 2, 5, 8)
layer("dense", nn.Linear(37, 11), 3, 37)
special()
loss()
cnn()
adam_optimizer()
adam_rounded()
numpy.savez(Path(__file__).with_name("ops.npz"), **ARRAYS)
