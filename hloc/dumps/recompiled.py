"""Recompilations: modules of one program compiled for other shapes or constants, or unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hloc.analysis.diff.module_hash import HashOptions, module_hash
from hloc.ir.module import Module
from hloc.ir.print_order import computation_order, instruction_order
from hloc.lazy_dataclass import dataclass

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Recompiled:
    """A program that was compiled several times.

    Attributes:
        modules: XLA's names, in order.
        differs_in: `shapes`, `constants`, `shapes and constants`, or `nothing`.
        values: the difference of each, if it is short: shapes of the parameters,
            or constants.
    """

    modules: tuple[str, ...]
    differs_in: str
    values: tuple[str, ...]


def recompiled(modules: Iterable[tuple[str, Module]]) -> tuple[Recompiled, ...]:
    """Return the programs that occur more than once.

    Args:
        modules: names and modules before the first pass.
    """
    groups: dict[str, list[tuple[str, Module]]] = {}
    for name, module in modules:
        key = module_hash(module, HashOptions(shapes=False, constants=False))
        groups.setdefault(key, []).append((name, module))
    return tuple(_group(members) for members in groups.values() if len(members) > 1)


def _group(members: list[tuple[str, Module]]) -> Recompiled:
    names = tuple(name for name, _ in members)
    modules = [module for _, module in members]
    shapes, constants = (
        len({module_hash(m, HashOptions(**{other: False})) for m in modules}) > 1
        for other in ("constants", "shapes")
    )
    differing = [
        word for word, differs in (("shapes", shapes), ("constants", constants)) if differs
    ]
    if shapes:
        values = tuple(_parameters(module) for module in modules)
    elif constants:
        values = tuple(_differing_constants(modules))
    else:
        values = ()
    return Recompiled(names, " and ".join(differing) or "nothing", values)


def _parameters(module: Module) -> str:
    return ", ".join(p.shape.text_without_layout for p in module.entry.parameters[:_SHOWN])


def _differing_constants(modules: list[Module]) -> Iterator[str]:
    """Yield the constants of each module that are not equal in all; short ones only."""
    texts = [list(_constants(module)) for module in modules]
    if len({len(found) for found in texts}) > 1:
        return
    columns = [column for column in zip(*texts, strict=True) if len(set(column)) > 1]
    for i in range(len(modules)):
        yield ", ".join(column[i] for column in columns[:_SHOWN])


def _constants(module: Module) -> Iterator[str]:
    for computation in computation_order(module):
        for inst in instruction_order(computation):
            if inst.is_a("constant"):
                value = inst.attributes.literal.value
                is_scalar = isinstance(value, np.ndarray) and value.size == 1
                yield str(value.item()) if is_scalar else inst.shape.text_without_layout
