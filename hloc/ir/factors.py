"""Factors: which dimensions of the operands and results of an instruction are sharded together.

As in einsum, every dimension has a factor, and dimensions of the same factor are sharded along
the same axes: `dot(f32[i,k], f32[k,j]) -> f32[i,j]`. A dimension without a factor must not be
    sharded.
The rows of opcodes give the rules (`Opcode.factors`); the propagation of shardings and the
partitioner read them. After Shardy's sharding rules (openxla/shardy,
`op_sharding_rule_registry.cc`) and the GSPMD paper (Xu et al., 2021).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import TypeAlias

from hloc.lazy_dataclass import dataclass

WHOLE = -1
"""The factor of a dimension that must not be sharded."""

Factors: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FactorRule:
    """The factors of one instruction.

    Attributes:
        operands: per operand, the factor of each dimension.
        results: per array of the result, likewise.
        sizes: number of elements along each factor.
        reductions: factors of operands that are reduced; the parts must be combined.
        even: factors that can only be divided into equal parts.
    """

    operands: tuple[Factors, ...]
    results: tuple[Factors, ...]
    sizes: tuple[int, ...]
    reductions: frozenset[int] = frozenset()
    even: frozenset[int] = frozenset()


@dataclass(slots=True)
class FactorDraft:
    """A rule under construction, in which no dimension has a factor at first."""

    operands: list[list[int]]
    results: list[list[int]]
    sizes: list[int] = field(default_factory=list)
    reductions: set[int] = field(default_factory=set)
    even: set[int] = field(default_factory=set)

    def factor(self, size: int) -> int:
        """Return a new factor."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def link(self, dims: Iterable[int], sizes: Sequence[int]) -> None:
        """Give factors to `dims` of results and of operands of the rank of `sizes`.

        Args:
            dims: the dimensions, at the same positions in operands and results.
            sizes: of the arrays that have them, `(8, 128)`.
        """
        for dim in dims:
            factor = self.factor(sizes[dim])
            for side in (*self.operands, *self.results):
                if len(side) == len(sizes):
                    side[dim] = factor

    def rule(self) -> FactorRule:
        return FactorRule(
            tuple(map(tuple, self.operands)),
            tuple(map(tuple, self.results)),
            tuple(self.sizes),
            frozenset(self.reductions),
            frozenset(self.even),
        )
