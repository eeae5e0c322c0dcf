"""examples/gpt_block.hlo written in NumPy: `python gpt_block_numpy.py FOLDER`."""

import sys

import numpy as np

from benchmarks.footprint_ways.files import Array, load, save

HEADS = 4


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    mean = x.mean(axis=-1, keepdims=True)
    variance = np.square(x - mean).mean(axis=-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + shift)


def attention(x: Array, matrix_in: Array, matrix_out: Array) -> Array:
    batch, length, width = x.shape
    parts = (x @ matrix_in).reshape(batch, length, 3, HEADS, width // HEADS)
    q, k, v = (parts[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    scores = q @ k.transpose(0, 1, 3, 2) * np.float32((width // HEADS) ** -0.5)
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, np.float32(-1e9))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return np.asarray(mixed @ matrix_out)


def gelu(x: Array) -> Array:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return np.asarray(np.float32(0.5) * x * (1 + np.tanh(inner)))


def forward(arguments: list[Array]) -> Array:
    """Return the logits; arguments are in the order of the module, the table is bits of bf16."""
    (matrix_in, matrix_out, mlp_in, mlp_out, *norms, positions, bits, ids) = arguments
    # The upper half of an f32 is a bf16.
    tokens = (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    x = tokens[ids] + positions
    x = x + attention(layer_norm(x, norms[0], norms[1]), matrix_in, matrix_out)
    x = x + gelu(layer_norm(x, norms[2], norms[3]) @ mlp_in) @ mlp_out
    return layer_norm(x, norms[4], norms[5]) @ tokens.T


if __name__ == "__main__":
    save(sys.argv[1], [forward(load(sys.argv[1]))])
