"""The syntax tree of a StableHLO module: names are not resolved, types are those declared."""

from __future__ import annotations

from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.shapes import Shape


class Symbol(NamedTuple):
    """`@name`: a function."""

    name: str


class Dense(NamedTuple):
    """`dense<[1, 2]> : tensor<2xi64>`: the shape of the type and the elements."""

    shape: Shape
    values: np.ndarray[Any, Any]


class Record(dict[str, Any]):
    """`{a = 1 : i64}` or `#stablehlo.gather<offset_dims = [1]>`; `text` is the source text."""

    text: str = ""


@dataclass(slots=True)
class Operation:
    """`%0:2 = dialect.name %a, %b {attributes} : types`.

    Attributes:
        name: with the dialect, `stablehlo.add`.
        operands: names of values, `%a` or `%0#1`.
        attributes: values by MLIR's names: int, float, bool, str, tuple, `Symbol`, `Dense`,
            `Record`, or a shape.
        operand_types: empty if the text omits them.
        results: names with their count: `%0:2` is `("%0", 2)`.
        location: reference or text of `loc(...)`, "" if there is none.
        start, end: offsets of the text.
    """

    name: str
    operands: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    operand_types: list[Shape] = field(default_factory=list)
    result_types: list[Shape] = field(default_factory=list)
    results: list[tuple[str, int]] = field(default_factory=list)
    location: str = ""
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Region:
    """One block: parameters by name and type, and operations; the last one returns."""

    parameters: list[tuple[str, Shape]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """`func.func @name(...)`; each parameter has a dictionary of attributes."""

    name: str
    body: Region
    parameter_attributes: list[Record]
    result_types: list[Shape]
    start: int
    end: int


@dataclass(slots=True)
class ModuleTree:
    """A module: functions in text order, locations by alias (`#loc3`)."""

    name: str = ""
    attributes: Record = field(default_factory=Record)
    functions: dict[str, Function] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)
