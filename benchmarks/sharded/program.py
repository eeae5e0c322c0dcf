"""One sharded program: its mesh, a JAX function, its arguments; and the table of all."""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

GROUPS = (
    "data_parallel", "tensor_parallel", "sequence", "experts", "pipelines", "grids", "uneven",
    "indexing", "rows", "collectives", "types", "control", "manual", "layouts", "models", "mixed",
)  # fmt: skip

_WIDE = ("int64", "uint64", "float64", "complex128")


@dataclass(frozen=True)
class Argument:
    """One argument: its dimensions, how it is split, and how to make it.

    Attributes:
        spec: mesh axes per dimension; None leaves the layout to the compiler.
        high: integers are below it and not negative; 0: from -100 to 99.
    """

    dims: tuple[int, ...]
    spec: P | None
    dtype: str
    high: int

    def array(self, rng: np.random.Generator) -> Any:
        """Return the array, the same for the same state of `rng`."""
        kind = np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        if kind.kind == "b":
            return rng.integers(0, 2, self.dims).astype(kind)
        if kind.kind in "iu" or kind.name in ("int4", "uint4"):
            low = 0 if self.high or kind.kind == "u" else -100
            return rng.integers(low, self.high or 100, self.dims).astype(kind)
        if kind.kind == "c":
            pair = rng.standard_normal((2, *self.dims))
            return (pair[0] + 1j * pair[1]).astype(kind)
        return rng.standard_normal(self.dims).astype(kind)


@dataclass(frozen=True)
class Program:
    """One row of the table.

    Attributes:
        group: the file it is in.
        mesh: sizes by axis name, the first axis major; empty: the function makes its own (`pmap`).
        order: device ids in the order of the mesh; () is 0, 1, 2 ...
        answer: the results in NumPy, for what XLA:CPU cannot run or gets wrong.
    """

    name: str
    group: str
    mesh: dict[str, int]
    order: tuple[int, ...]
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    answer: Callable[..., Any] | None

    def arrays(self) -> list[Any]:
        """Return the whole arguments, the same in every process."""
        rng = np.random.default_rng(0)
        return [argument.array(rng) for argument in self.arguments]

    def jax_mesh(self) -> Mesh:
        """Return the mesh over the first devices of JAX."""
        count = math.prod(self.mesh.values())
        devices = np.array(jax.devices())[list(self.order) or range(count)]
        sizes, names = tuple(self.mesh.values()), tuple(self.mesh)
        return Mesh(devices.reshape(sizes), names, axis_types=(AxisType.Auto,) * len(names))

    def placed(self) -> list[Any]:
        """Return the arguments as JAX arrays, split as the row says."""
        if not self.mesh:
            return list(self.arrays())
        mesh = self.jax_mesh()
        return [
            array if a.spec is None else jax.device_put(array, NamedSharding(mesh, a.spec))
            for a, array in zip(self.arguments, self.arrays(), strict=True)
        ]

    def wide(self) -> bool:
        """Return whether JAX's 64-bit mode is needed."""
        return any(a.dtype in _WIDE for a in self.arguments)


PROGRAMS: dict[str, Program] = {}
"""All programs by name, in the order of the table; filled by `load_all`."""


def array(*dims: int, by: Any = (), dtype: str = "float32", high: int = 0) -> Argument:
    """Return an argument; `by` names the mesh axes per dimension, None leaves them open."""
    spec = None if by is None else P(by) if isinstance(by, str) else P(*by)
    return Argument(dims, spec, dtype, high)


def program(
    mesh: str,
    *arguments: Argument,
    order: tuple[int, ...] = (),
    answer: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a program; `mesh` is as `"x=4,y=2"`."""
    sizes = dict(part.split("=") for part in mesh.split(",") if part)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        assert name not in PROGRAMS, f"two programs are called {name}"
        group = function.__module__.rpartition(".")[2]
        PROGRAMS[name] = Program(
            name, group, {n: int(s) for n, s in sizes.items()}, order, function, arguments, answer
        )
        return function

    return register


def split(value: Any, *by: Any) -> Any:
    """Constrain how `value` is split: mesh axes per dimension."""
    return jax.lax.with_sharding_constraint(value, P(*by))


def load_all() -> dict[str, Program]:
    """Import every group; returns `PROGRAMS`."""
    for group in GROUPS:
        importlib.import_module(f"benchmarks.sharded.{group}")
    return PROGRAMS
