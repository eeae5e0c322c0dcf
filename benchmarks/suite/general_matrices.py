"""Singular values, eigenvalues and Schur forms of single matrices of middling size."""

import jax.numpy as jnp
import jax.scipy.linalg as jsl

from benchmarks.suite.program import program


@program((60, 40))
def singular_values_40(a):
    return jnp.linalg.svd(a, compute_uv=False)


@program((30, 30))
def eigenvalues_general_30(a):
    return jnp.sort(jnp.abs(jnp.linalg.eigvals(a)))


@program((12, 12), dtype="float64")
def eigenvalues_general_f64(a):
    return jnp.sort(jnp.abs(jnp.linalg.eigvals(a)))


@program((40, 40))
def schur_40(a):
    t, z = jsl.schur(a)
    return z @ t @ z.T
