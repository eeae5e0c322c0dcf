"""One line on why a pass, or all of them, made nothing faster."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.cost import costs_of, instruction_cost
from hloc.analysis.measure import Measure
from hloc.errors import printable
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions, reachable_computations
from hloc.opt.pass_base import Remark
from hloc.report.kernel_times import KernelTime
from hloc.report.text import plural

_NAMES_SHOWN = 2
SAME_TIME = 0.97
"""Fraction of the time before; a module that takes more is not called faster."""


def is_gain(before: Measure, after: Measure) -> bool:
    """Return whether there are fewer kernels, or they move fewer bytes."""
    return after.kernels < before.kernels or after.cost.bytes < before.cost.bytes


def no_gain_text(before: Measure, after: Measure, remarks: Sequence[Remark]) -> str:
    """Return why a pass removed neither kernels nor bytes, as far as its remarks tell.

    "" if it did, or gave no reason: `not faster: it has 3 users (%a, %b); 4 more: --remarks`.
    """
    if is_gain(before, after):
        return ""
    groups: dict[str, list[str]] = {}
    for remark in dict.fromkeys(remarks):
        if remark.kind == "missed":
            groups.setdefault(remark.text, []).append(remark.at)
    if not groups:
        return ""
    text, names = max(groups.items(), key=lambda group: len(group[1]))
    shown = [f"%{printable(name)}" for name in names if name][:_NAMES_SHOWN]
    count = f", {len(names)} in all" if len(names) > len(shown) else ""
    where = f" ({', '.join(shown)}{count})" if shown else ""
    others = sum(map(len, groups.values())) - len(names)
    more = f"; {plural(others, 'other reason')}" if others else ""
    return f"not faster: {printable(text)}{where}{more}"


def bound_text(first: Module, last: Module, kernels: Sequence[KernelTime]) -> str:
    """Return what bounds the time of `last`, which is no faster than `first`.

    Args:
        first: the module before the passes.
        last: the module after them.
        kernels: kernels of `last`, timed one by one, the slowest first.
    """
    total = sum(kernel.seconds for kernel in kernels)
    if not total:
        return ""
    name, share = kernels[0].name, 100 * kernels[0].seconds / total
    text = f"not faster: {printable(name)} takes {share:.0f} % of the time of the kernels"
    return f"{text}, and no pass has changed it" if _same(first, last, name) else text


def heaviest_text(first: Module, last: Module) -> str:
    """Return which instruction does most of the arithmetic of `last`, or moves most bytes.

    For passes that removed neither kernels nor bytes of `first` and gave no reason.
    """
    below = costs_of(reachable_computations(last.entry))
    costs = {i: instruction_cost(i, below.__getitem__) for i in last.entry.instructions}
    flops = {i: cost.flops + cost.transcendentals for i, cost in costs.items()}
    work, what = flops, "arithmetic"
    if not any(flops.values()):
        work, what = {i: cost.bytes for i, cost in costs.items()}, "memory traffic"
    if not any(work.values()):
        return ""
    name = max(work, key=work.__getitem__).name
    share = 100 * max(work.values()) / sum(work.values())
    text = f"not faster: {printable(name)} is {share:.0f} % of the {what}"
    return f"{text}, and no pass has changed it" if _same(first, last, name) else text


def _same(first: Module, last: Module, name: str) -> bool:
    """Return whether the instruction `name` is the same in `first` and `last`."""
    after = next(inst for inst in all_instructions(last) if inst.name == name)
    for before in all_instructions(first):
        if before.uid == after.uid:
            return (
                before.opcode is after.opcode
                and before.shape == after.shape
                and before.attributes == after.attributes
            )
    return False
