"""Short programs as people write them: prices, clusters, images, loops of small steps."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.suite.program import integers, program


def uniform(low, high, *dims):
    """Return a maker of f32 arrays of numbers from `low` to `high`."""
    return lambda rng: rng.uniform(low, high, dims).astype(np.float32)


@program(uniform(50, 150, 20_000), uniform(50, 150, 20_000), uniform(0.1, 2, 20_000))
def black_scholes(spot, strike, years):
    rate, volatility = 0.03, 0.25
    spread = volatility * jnp.sqrt(years)
    first = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    second = first - spread
    discounted = strike * jnp.exp(-rate * years)
    below = jax.scipy.stats.norm.cdf
    call = spot * below(first) - discounted * below(second)
    return call, call - spot + discounted


@program((30_000,))
def sine_and_cosine(x):
    return jnp.sin(3 * x), jnp.cos(3 * x)


@program((300, 40))
def small_softmax(x):
    return jax.nn.softmax(x)


@program((5000, 10))
def short_log_softmax(x):
    return jax.nn.log_softmax(x)


@program((3000, 12))
def short_sums_of_squares(x):
    return jnp.sum(x * x, axis=1)


@program((40, 200), (200,), (200,))
def narrow_layernorm(x, scale, offset):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + offset


@program((50_000,), integers(50_000, 100_000))
def gather_more_scalars(x, indices):
    return x[indices]


@program((2000, 8), (16, 8))
def k_means(points, centres):
    def step(centres, _):
        distance = jnp.sum((points[:, None] - centres[None]) ** 2, -1)
        member = jax.nn.one_hot(jnp.argmin(distance, 1), 16)
        return member.T @ points / (jnp.sum(member, 0)[:, None] + 1e-6), None

    return jax.lax.scan(step, centres, None, length=10)[0]


@program((200, 200), (200,))
def jacobi(a, b):
    diagonal = 200.0 + jnp.diag(a)
    rest = a - jnp.diag(jnp.diag(a))
    return jax.lax.fori_loop(0, 40, lambda i, x: (b - rest @ x) / diagonal, jnp.zeros(200))


@program((100, 100))
def heat_steps(field):
    def step(_, u):
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].set(0.25 * inner)

    return jax.lax.fori_loop(0, 50, step, field)


@program(())
def while_logistic_map(x):
    return jax.lax.fori_loop(0, 50_000, lambda i, y: 3.7 * y * (1 - y), jax.nn.sigmoid(x))


@program((8, 48), lambda rng: (rng.standard_normal((48, 48)) * 0.1).astype(np.float32))
def while_rnn(state, w):
    return jax.lax.fori_loop(0, 200, lambda i, s: jnp.tanh(s @ w + 0.1), state)


@program((96,), lambda rng: (rng.standard_normal((96, 96)) * 0.04).astype(np.float32))
def recurrent_decay(state, w):
    return jax.lax.fori_loop(0, 500, lambda i, s: jnp.tanh(s @ w), state)


@program((60, 3, 16), (60, 16), (60, 16, 16), (60, 16), (60, 16, 1), (50, 3))
def population_of_networks(w1, b1, w2, b2, w3, x):
    def network(w1, b1, w2, b2, w3):
        hidden = jnp.tanh(x @ w1 + b1)
        return jnp.tanh(hidden @ w2 + b2) @ w3

    return jax.vmap(network)(w1, b1, w2, b2, w3)


@program((16, 6, 120), (12, 6, 5), (8, 12, 3))
def conv_1d_channels_first(x, w1, w2):
    def conv(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH")
        )

    return conv(jax.nn.relu(conv(x, w1)), w2)


@program((2, 112, 112, 3), (7, 7, 3, 32))
def conv_7x7_small(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@program((2, 14, 14, 256), (1, 1, 256, 512))
def conv_1x1_deep(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@program((50, 77), dtype="complex64")
def fft_77(x):
    return jnp.fft.fft(x)


@program((20, 1001), dtype="complex64")
def fft_1001(x):
    return jnp.fft.fft(x)


@program((200, 128), dtype="complex64")
def fft_short_rows(x):
    return jnp.fft.fft(x)


@program((30, 650))
def rfft_650(x):
    return jnp.fft.rfft(x)


@program((1000,), dtype="complex64")
def fft_of_one_row(x):
    return jnp.fft.fft(x)


@program((3, 600), dtype="complex128")
def fft_of_three_rows(x):
    return jnp.fft.fft(x)


@program((48, 60), dtype="complex64")
def fft_of_image(x):
    return jnp.fft.fft2(x)


@program((16384,), dtype="complex64")
def fft_of_long_row(x):
    return jnp.fft.fft(x)
