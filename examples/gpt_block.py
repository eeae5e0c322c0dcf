"""Forward pass of a small GPT: token embedding, one transformer block, next-token logits.

Pre-norm block with causal multi-head attention and a gelu MLP. Token ids are looked up in a
bf16 table (a gather), the rest computes in f32; the logits use the same table, transposed.
"""

import jax
import jax.numpy as jnp
from jax_dump import dump

BATCH, LENGTH, VOCABULARY = 2, 16, 64
WIDTH, HEADS, MLP_WIDTH = 32, 4, 128

Params = dict[str, jax.Array]


def init(key: jax.Array) -> Params:
    """Return the weights; all f32 but the token table, which is bf16[64,32]."""
    shapes = {
        "attention_in": (WIDTH, 3 * WIDTH),
        "attention_out": (WIDTH, WIDTH),
        "mlp_in": (WIDTH, MLP_WIDTH),
        "mlp_out": (MLP_WIDTH, WIDTH),
        "positions": (LENGTH, WIDTH),
        "tokens": (VOCABULARY, WIDTH),
    }
    keys = jax.random.split(key, len(shapes))
    params = {
        name: jax.random.normal(k, shape) * shape[0] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    params["tokens"] = params["tokens"].astype(jnp.bfloat16)
    for name in ("norm1", "norm2", "norm_out"):
        params[f"{name}_scale"] = jnp.full((WIDTH,), 1.1)
        params[f"{name}_shift"] = jnp.full((WIDTH,), 0.01)
    return params


def layer_norm(params: Params, name: str, x: jax.Array) -> jax.Array:
    """Return x, f32[...,32], with mean 0 and variance 1 per row, scaled and shifted."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    normal = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    return normal * params[f"{name}_scale"] + params[f"{name}_shift"]


def attention(params: Params, x: jax.Array) -> jax.Array:
    """Return causal multi-head attention of x, f32[2,16,32]."""
    heads = (BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
    q, k, v = jnp.moveaxis((x @ params["attention_in"]).reshape(heads), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
    causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return mixed.reshape(BATCH, LENGTH, WIDTH) @ params["attention_out"]


def forward(params: Params, token_ids: jax.Array) -> jax.Array:
    """Return the logits f32[2,16,64] for token ids s32[2,16]."""
    x = params["tokens"][token_ids].astype(jnp.float32) + params["positions"]
    x = x + attention(params, layer_norm(params, "norm1", x))
    hidden = jax.nn.gelu(layer_norm(params, "norm2", x) @ params["mlp_in"])
    x = x + hidden @ params["mlp_out"]
    return layer_norm(params, "norm_out", x) @ params["tokens"].astype(jnp.float32).T


if __name__ == "__main__":
    init_key, ids_key = jax.random.split(jax.random.key(1))
    dump(
        "gpt_block",
        forward,
        init(init_key),
        jax.random.randint(ids_key, (BATCH, LENGTH), 0, VOCABULARY),
    )
