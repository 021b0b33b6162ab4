#!/usr/bin/env python3
"""Trains a small network on pictures of ten classes, with NumPy. Arguments: the data, how many epochs."""

import sys
import time

import numpy as np
import stoker

SIDE, BATCH, HIDDEN = 32, 16, 64


def train_step(first, second, x, y, rate=0.05):
    """One step of gradient descent, in place, for a network with a hidden layer; returns the loss."""
    x = x.reshape(len(x), -1).astype(np.float32) / 128 - 1
    hidden = np.maximum(x @ first, 0)
    error = np.exp(hidden @ second)
    error /= error.sum(axis=1, keepdims=True)
    right = range(len(y)), y
    loss = -np.log(error[right]).mean()
    error[right] -= 1
    back = error @ second.T * (hidden > 0)
    second -= rate / len(y) * hidden.T @ error
    first -= rate / len(y) * x.T @ back
    return loss


np.random.seed(1)
first = np.random.normal(0, 0.02, (SIDE * SIDE * 3, HIDDEN)).astype(np.float32)
second = np.random.normal(0, 0.1, (HIDDEN, 10)).astype(np.float32)
data = stoker.Loader(sys.argv[1], batch=BATCH, last="short",
                     decode=f"image:{SIDE}", as_tuple=("data", "label"))
for epoch in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3):
    start = time.monotonic()
    losses = [train_step(first, second, x, y) for x, y in data]
    seconds = time.monotonic() - start
    print(f"epoch {epoch}: {seconds:.2f} s, loss {np.mean(losses):.2f}", flush=True)
