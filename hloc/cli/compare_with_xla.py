"""`--compare-with=xla`: the results of XLA, by way of jaxlib, for a module as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.errors import HloError
from hloc.ir.module import Module

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def results_of_xla(
    module: Module, inputs: Sequence[Array], *, on_devices: bool = False
) -> list[Array]:
    """Compile and run `module` by XLA on this machine's CPU.

    Raises:
        HloError: jax is not installed, or XLA refuses the module.
    """
    from hloc.jax.xla_program import is_installed, run_by_xla

    if on_devices:
        raise HloError("--compare-with=xla runs a module on one device")
    if not is_installed():
        raise HloError("--compare-with=xla needs jax", notes=("pip install 'hloc[jax]'",))
    text = module.to_text("default", large_constants=True)
    return [np.asarray(result) for result in run_by_xla(text, inputs)[0]]
