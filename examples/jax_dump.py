"""Write what the tests and the documentation need of one JAX function.

`dump("name", function, *arguments)` writes beside this file

    name.hlo           the module before XLA's passes, as `jax.jit(f).lower(...).as_text("hlo")`
    name.inputs.npz    the arguments, flattened depth first: arg0, arg1, ...
    name.outputs.npz   what XLA:CPU answers, flattened depth first: out0, out1, ...

Needs `pip install -e '.[jax]'`; hloc itself never imports this file.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

HERE = Path(__file__).resolve().parent
MAX_BYTES = 100_000  # larger dumps do not belong in the repository


def storable(array: Any) -> np.ndarray:
    """Return `array` as NumPy can store it: bf16[4] becomes uint16[4] with the same bits.

    The parameter and result shapes of the module say how to read it back.
    """
    plain = np.asarray(array)
    if plain.dtype.kind in "biufc":
        return plain
    return plain.view(f"uint{8 * plain.dtype.itemsize}")


def save(path: Path, prefix: str, arrays: Sequence[Any]) -> None:
    """Store `arrays` as `prefix0`, `prefix1`, ... in one `.npz`."""
    np.savez_compressed(path, **{f"{prefix}{i}": storable(a) for i, a in enumerate(arrays)})


def write_text(file_name: str, text: str) -> Path:
    """Write `text` beside this file; paths in its metadata become relative to this folder."""
    path = HERE / file_name
    path.write_text(text.replace(f"{HERE}/", ""))
    return path


def dump(name: str, function: Callable[..., Any], *arguments: Any) -> None:
    """Lower `function` for `arguments`, run it once, and write the three files.

    Raises:
        ValueError: a file is larger than the repository takes.
    """
    # keep_unused: one parameter per argument, also where the program does not read it.
    jitted = jax.jit(function, keep_unused=True)
    lowered = jitted.lower(*arguments)
    inputs, outputs = HERE / f"{name}.inputs.npz", HERE / f"{name}.outputs.npz"
    save(inputs, "arg", jax.tree.leaves(arguments))
    save(outputs, "out", jax.tree.leaves(lowered.compile()(*arguments)))
    module = write_text(f"{name}.hlo", lowered.as_text("hlo"))
    for path in (module, inputs, outputs):
        size_bytes = path.stat().st_size
        print(f"{path.name:32s} {size_bytes:7,d} bytes")
        if size_bytes > MAX_BYTES:
            raise ValueError(f"{path.name} has {size_bytes} bytes, the limit is {MAX_BYTES}")
