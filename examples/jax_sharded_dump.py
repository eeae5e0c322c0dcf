"""Write what the tests and the documentation need of a JAX function for several devices.

`dump("name", {"data": 4, "model": 2}, function, (argument, P("data")), ...)` writes beside this
file

    name.hlo              the annotated module: whole arrays, and how they are split
    partitioned/name.hlo  the module of one device, as XLA's partitioner makes it
    name.inputs.npz       the whole arguments: arg0, arg1, ...
    name.outputs.npz      what XLA:CPU answers on that many virtual devices, whole: out0, out1, ...

Import it before JAX makes its first array: the number of devices is fixed then.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jax_dump import HERE, MAX_BYTES, save, write_text

DEVICES = 8
_FOLDER = tempfile.TemporaryDirectory()
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count={DEVICES} --xla_dump_to={_FOLDER.name}"
    " --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd-partitioning"
)


def dump(
    name: str,
    mesh: dict[str, int],
    function: Callable[..., Any],
    *arguments: tuple[Any, PartitionSpec],
) -> None:
    """Compile `function` for a mesh, run it once, and write the four files.

    Raises:
        ValueError: a file is larger than the repository takes.
    """
    devices = jax.make_mesh(tuple(mesh.values()), tuple(mesh), (AxisType.Auto,) * len(mesh))
    placed = [jax.device_put(a, NamedSharding(devices, spec)) for a, spec in arguments]
    function.__name__ = name
    with jax.set_mesh(devices):
        results = jax.jit(function, keep_unused=True)(*placed)
    save(HERE / f"{name}.inputs.npz", "arg", [argument for argument, _ in arguments])
    save(HERE / f"{name}.outputs.npz", "out", jax.tree.leaves(results))
    for pattern, target in (
        ("before_optimizations.txt", f"{name}.hlo"),
        ("*after_spmd-partitioning*.txt", f"partitioned/{name}.hlo"),
    ):
        (dumped,) = Path(_FOLDER.name).glob(f"*.jit_{name}.{pattern}")
        write_text(target, dumped.read_text())
    for path in sorted(HERE.glob(f"{name}.*")):
        size_bytes = path.stat().st_size
        print(f"{path.name:36s} {size_bytes:7,d} bytes")
        if size_bytes > MAX_BYTES:
            raise ValueError(f"{path.name} has {size_bytes} bytes, the limit is {MAX_BYTES}")
