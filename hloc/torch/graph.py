"""Lowers a graph of PyTorch's core operators to a module: each node to a few instructions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from hloc.dtypes import PRED, S64, DType
from hloc.errors import HloError, UnsupportedError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape
from hloc.torch.tensors import dtype_of, shape_of

Result: TypeAlias = Instruction | Sequence[Instruction | None] | None
Operator: TypeAlias = Callable[..., Result]
Lowerer = TypeVar("Lowerer", bound=Operator)

OPERATORS: dict[str, Operator] = {}
"""Name with overload, `aten.add.Tensor` -> function of the `Lowering` and the node's arguments."""


def implements(*names: str) -> Callable[[Lowerer], Lowerer]:
    """Register a function as the lowering of operators; `add.Tensor` is `aten.add.Tensor`."""

    def register(function: Lowerer) -> Lowerer:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[f"aten.{name}"] = function
        return function

    return register


class Lowering:
    """Adds instructions for a graph; the interface for lowerings of operators.

    Attributes:
        build: the builder of the entry computation.
        results: shapes of the results of the node being lowered, as PyTorch computed them.
    """

    def __init__(self, name: str) -> None:
        self.module = Module(name)
        self.entry: Computation = self.module.add_computation("main")
        self.build = Builder(self.entry)
        self.results: tuple[ArrayShape | None, ...] = ()

    # ---- results of the node

    @property
    def shape(self) -> ArrayShape:
        """Shape of the first result."""
        shape = self.results[0]
        assert shape is not None
        return shape

    @property
    def dtype(self) -> DType:
        return self.shape.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        return self.shape.dims

    # ---- values

    def constant(self, value: Any, dtype: DType) -> Instruction:
        """Return a scalar constant."""
        return self.build.constant(np.asarray(value).astype(dtype.numpy), dtype)

    def splat(self, value: Any, dtype: DType, dims: Sequence[int]) -> Instruction:
        """Return `value` in every element of `dtype[dims]`."""
        scalar = self.constant(value, dtype)
        return scalar if not dims else self.build.broadcast(scalar, tuple(dims))

    def cast(self, x: Instruction, dtype: DType) -> Instruction:
        """Return `x` as `dtype`; to pred by `!= 0`, from complex by the real part."""
        if x.array.dtype is dtype:
            return x
        if dtype is PRED:
            return self.build.compare(x, self.splat(0, x.array.dtype, x.array.dims), "NE")
        if x.array.dtype.is_complex and not dtype.is_complex:
            x = self.build.real(x)
        return self.build.convert(x, dtype)

    def expand(self, x: Instruction, dims: Sequence[int]) -> Instruction:
        """Return `x` broadcast to `dims` by NumPy's rule, last dimensions matched."""
        dims = tuple(dims)
        if x.array.dims == dims:
            return x
        first = len(dims) - x.array.rank
        kept = [i for i, size in enumerate(x.array.dims) if size == dims[first + i]]
        if len(kept) != x.array.rank:
            x = self.build.reshape(x, [x.array.dims[i] for i in kept])
        return self.build.broadcast(x, dims, tuple(first + i for i in kept))

    def operand(self, x: Any, dtype: DType, dims: Sequence[int]) -> Instruction:
        """Return a tensor or a Python number as an array of `dtype[dims]`."""
        if isinstance(x, Instruction):
            return self.expand(self.cast(x, dtype), dims)
        return self.splat(x, dtype, dims)

    def binary(self, opcode: str, x: Any, y: Any, dtype: DType | None = None) -> Instruction:
        """Return `opcode` of two tensors or numbers, with the shape of the node's result."""
        kind = dtype or self.dtype
        operands = (self.operand(x, kind, self.dims), self.operand(y, kind, self.dims))
        return self.build.instruction(opcode, operands)

    def unary(self, opcode: str, x: Instruction) -> Instruction:
        return self.build.instruction(opcode, (x,))

    def reduce(
        self, opcode: str, x: Instruction, dims: Sequence[int], start: Any, keep: bool = False
    ) -> Instruction:
        """Return `x` reduced over `dims` by a binary opcode, with init `start`."""
        kind = x.array.dtype
        over = tuple(sorted(dim % max(x.array.rank, 1) for dim in dims)) if x.array.rank else ()
        if over:
            function = self.build.scalar_function(opcode, kind)
            sizes = x.array.dims
            x = self.build.reduce((x,), (self.constant(start, kind),), over, function)
            if keep:
                x = self.build.reshape(x, [1 if i in over else n for i, n in enumerate(sizes)])
        return x

    def all_dims(self, x: Instruction, dims: Any) -> tuple[int, ...]:
        """Return `dims` as a tuple; None or an empty list is every dimension."""
        if isinstance(dims, int):
            dims = (dims,)
        rank = x.array.rank
        return tuple(d % max(rank, 1) for d in dims) if dims else tuple(range(rank))

    def index(self, number: int) -> Instruction:
        return self.constant(number, S64)


# ---------------------------------------------------------------- graphs


def lowered(graph: Any, name: str = "torch") -> Module:
    """Return the module of a `torch.fx.Graph`: one parameter per placeholder that is a tensor.

    Raises:
        UnsupportedError: it has an operator that hloc lacks, or symbolic sizes.
    """
    from hloc.torch import operators

    operators.load_all()
    lowering = Lowering(name)
    values: dict[Any, Any] = {}
    missing: dict[str, None] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = _placeholder(lowering, node)
        elif node.op == "get_attr":
            values[node] = _attribute(lowering, graph.owning_module, node)
        elif node.op == "call_function":
            if str(node.target) in OPERATORS or node.target is operator.getitem:
                values[node] = None if missing else _call(lowering, node, values)
            else:
                missing[str(node.target)] = None
        elif node.op == "output" and not missing:
            leaves = [values[leaf] for leaf in outputs_of(node) if leaf is not None]
            root = leaves[0] if len(leaves) == 1 else lowering.build.tuple(leaves)
            lowering.entry.set_root(root)
    if missing:
        raise UnsupportedError(
            f"hloc has no lowering for {', '.join(sorted(missing))}",
            notes=("operators it has: hloc/torch/operators/",),
        )
    lowering.module.set_entry(lowering.entry)
    lowering.module.log.recording = True
    return lowering.module


def outputs_of(node: Any) -> list[Any]:
    """Return the values of the output node, None for a result of None."""
    leaves = node.args[0]
    return list(leaves) if isinstance(leaves, (list, tuple)) else [leaves]


def tensor_meta(node: Any) -> Any:
    """Return PyTorch's description of a node's value: a fake tensor, a list, or a number."""
    return node.meta.get("val")


def is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _placeholder(lowering: Lowering, node: Any) -> Any:
    value = tensor_meta(node)
    if not is_tensor(value):
        if value is None or isinstance(value, (int, float, bool)):
            return value
        raise UnsupportedError(
            f"input {node.name} is a size that changes from call to call",
            notes=("compile with torch.compile(..., dynamic=False)",),
        )
    number = len(lowering.entry.parameters)
    return lowering.build.parameter(number, shape_of(value))


def _attribute(lowering: Lowering, owner: Any, node: Any) -> Instruction:
    from hloc.torch.tensors import to_array

    value = owner
    for part in node.target.split("."):
        value = getattr(value, part)
    return lowering.build.constant(to_array(value), dtype_of(value.dtype))


def _call(lowering: Lowering, node: Any, values: dict[Any, Any]) -> Any:
    import torch.fx

    def resolve(argument: Any) -> Any:
        return values[argument]

    args = torch.fx.map_arg(node.args, resolve)
    kwargs = torch.fx.map_arg(node.kwargs, resolve)
    if node.target is operator.getitem:
        return args[0][args[1]]
    found = tensor_meta(node)
    results = found if isinstance(found, (list, tuple)) else (found,)
    lowering.results = tuple(shape_of(r) if is_tensor(r) else None for r in results)
    try:
        return OPERATORS[str(node.target)](lowering, *args, **kwargs)
    except HloError as error:
        raise type(error)(f"{node.target} ({node.name}): {error.message}") from None
