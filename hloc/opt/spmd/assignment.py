"""Chooses how to compute one instruction on all devices: the mesh axes of each factor.

Candidates come from the tilings of the operands and the wanted one; the one that sends the
fewest bytes is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from hloc.ir.factors import WHOLE, FactorRule
from hloc.lazy_dataclass import dataclass
from hloc.opt.spmd.region import Value
from hloc.opt.spmd.reshard import reshard_bytes
from hloc.opt.spmd.tiling import Axes, Mesh, Tiling, until_used

_LOCAL_WEIGHT = 1e-3
"""Cost of a byte of the local result: at equal traffic, the more parallel choice wins."""


@dataclass(frozen=True)
class Assignment:
    """The axes of each factor."""

    mesh: Mesh
    axes: Mapping[int, Axes]

    def tiling(self, factors: Sequence[int]) -> Tiling:
        """Return the tiling of an array with these factors."""
        return Tiling(self.mesh, tuple(self.axes.get(factor, ()) for factor in factors))

    def reduced(self, rule: FactorRule) -> Axes:
        """Return the axes along which results are partial sums."""
        return tuple(axis for f in sorted(rule.reductions) for axis in self.axes.get(f, ()))


def choose(
    rule: FactorRule,
    values: Sequence[Value],
    wanted: Tiling | None,
    result_bytes: int,
    result_dims: Sequence[int],
    mesh: Mesh,
) -> Assignment:
    """Return the cheapest assignment.

    Args:
        rule: the factors of the instruction.
        values: the operands.
        wanted: preferred tiling of the first result, None for any.
        result_bytes: size of the whole result.
        result_dims: dimensions of the first result.
        mesh: the mesh of all tilings.
    """
    sources = [(factors, v.tiling, prod(v.whole.dims)) for factors, v in _projected(rule, values)]
    if wanted is not None:
        sources.append((rule.results[0], wanted, prod(result_dims)))
    best, least = Assignment(mesh, {}), float("inf")
    for candidate in _candidates(rule, sources, mesh):
        cost = _cost(rule, candidate, values, wanted, result_bytes, result_dims)
        if cost < least:
            best, least = candidate, cost
    return best


def _projected(
    rule: FactorRule, values: Sequence[Value]
) -> Iterator[tuple[tuple[int, ...], Value]]:
    seen = set()
    for factors, value in zip(rule.operands, values, strict=True):
        key = (factors, value.tiling)
        if key not in seen and not value.tiling.is_replicated:
            seen.add(key)
            yield factors, value


_Source = tuple[tuple[int, ...], Tiling, int]


def _candidates(rule: FactorRule, sources: Sequence[_Source], mesh: Mesh) -> Iterator[Assignment]:
    """Yield assignments worth costing, each once; one of them computes everything on every device.

    An axis can split one factor only, so sources compete. Each source leads once, and the others
    take what axes are left, largest array first; with and without splitting reduced factors, whose
    partial sums need a collective; and each source alone.
    """
    by_size = sorted(sources, key=lambda source: -source[2])
    seen = set()
    for first in [None, *by_size]:
        order = by_size if first is None else [first, *(s for s in by_size if s is not first)]
        for without in (frozenset[int](), rule.reductions):
            axes = _merged(rule, order, mesh, without)
            key = tuple(sorted(axes.items()))
            if key not in seen:
                seen.add(key)
                yield Assignment(mesh, axes)
        if first is not None:
            axes = _merged(rule, [first], mesh, frozenset())
            key = tuple(sorted(axes.items()))
            if key not in seen:
                seen.add(key)
                yield Assignment(mesh, axes)
    if () not in seen:
        yield Assignment(mesh, {})


def _merged(
    rule: FactorRule, sources: Sequence[_Source], mesh: Mesh, without: frozenset[int]
) -> dict[int, Axes]:
    """Give each factor the axes of the first source that splits it, as far as they are free."""
    found: dict[int, Axes] = {}
    used: set[int] = set()
    for factors, tiling, _ in sources:
        for factor, axes in zip(factors, tiling.dims, strict=True):
            if factor == WHOLE or factor in without or not axes or factor in found:
                continue
            kept = until_used(axes, used)
            while kept and not _fits(rule, factor, mesh.size(kept)):
                kept = kept[:-1]
            if kept:
                found[factor] = kept
                used |= set(kept)
    return found


def _fits(rule: FactorRule, factor: int, tiles: int) -> bool:
    size = rule.sizes[factor]
    return factor not in rule.even or size % tiles == 0


def _cost(
    rule: FactorRule,
    candidate: Assignment,
    values: Sequence[Value],
    wanted: Tiling | None,
    result_bytes: int,
    result_dims: Sequence[int],
) -> float:
    """Return the bytes a device sends under `candidate`, and a little for its share of the work.

    Counted are: bringing each operand into the tiling that the assignment asks for, the all-reduce
    of partial sums (2 (n - 1) / n of the result, a ring), and moving the result into `wanted`.
    """
    cost = sum(
        reshard_bytes(value, candidate.tiling(factors))
        for factors, value in zip(rule.operands, values, strict=True)
    )
    result = candidate.tiling(rule.results[0]) if rule.results else None
    split = candidate.mesh.size(result.axes) if result else 1
    reduced = candidate.reduced(rule)
    if reduced:
        n = candidate.mesh.size(reduced)
        cost += 2 * (n - 1) / n * result_bytes / split
    if wanted is not None and result is not None and wanted != result:
        element = result_bytes / max(1, prod(result_dims))
        cost += _moved(result, wanted, result_dims, element, reduced)
    work = candidate.mesh.size({axis for axes in candidate.axes.values() for axis in axes})
    operand_bytes = sum(value.whole.size_bytes for value in values)
    return cost + _LOCAL_WEIGHT * (result_bytes + operand_bytes) / work


def _moved(
    now: Tiling, wanted: Tiling, dims: Sequence[int], element: float, reduced: Axes
) -> float:
    """Estimate the bytes to reshard a result to `wanted`; a reduce-scatter saves half."""
    local = prod(now.local_dims(dims)) * element
    gone = now.axes - wanted.axes
    if gone:
        return local * (now.mesh.size(gone) - 1)
    gained = wanted.axes - now.axes
    if reduced and gained and gained <= set(reduced):
        n = now.mesh.size(reduced)
        return -(n - 1) / n * local
    return 0.0 if now.axes <= wanted.axes and gained else local
