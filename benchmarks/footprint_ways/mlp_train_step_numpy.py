"""examples/mlp_train_step.hlo written in NumPy: `python mlp_train_step_numpy.py FOLDER`."""

import sys

import numpy as np

from benchmarks.footprint_ways.files import Array, load, save

RATE, DECAY = np.float32(0.05), np.float32(1e-3)


def train_step(arguments: list[Array]) -> list[Array]:
    """Return the parameters after one step of gradient descent, and the loss before it."""
    *params, x, labels = arguments
    matrices, biases = params[0::2], params[1::2]
    inputs = [x]
    for matrix, bias in zip(matrices[:-1], biases[:-1], strict=True):
        inputs.append(np.maximum(inputs[-1] @ matrix + bias, 0))
    logits = inputs[-1] @ matrices[-1] + biases[-1]
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    decay = sum(np.square(matrix).sum() for matrix in matrices)
    loss = np.float32(-(shifted - log_sum)[rows, labels].mean() + DECAY * decay)

    gradient = np.exp(shifted - log_sum)
    gradient[rows, labels] -= 1
    gradient /= np.float32(len(labels))
    updated: list[Array] = []
    for layer in reversed(range(len(matrices))):
        slope = inputs[layer].T @ gradient + 2 * DECAY * matrices[layer]
        updated[:0] = [matrices[layer] - RATE * slope, biases[layer] - RATE * gradient.sum(axis=0)]
        if layer:
            gradient = gradient @ matrices[layer].T * (inputs[layer] > 0)
    return [*updated, np.asarray(loss)]


if __name__ == "__main__":
    save(sys.argv[1], train_step(load(sys.argv[1])))
