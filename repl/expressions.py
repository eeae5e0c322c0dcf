"""A small language for conditions over counts: `instructions > 500 and count(reduce) == 0`.

Python's parser reads it, and only the few forms listed here are evaluated; no Python code runs.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from hloc.analysis.cost import module_cost
from hloc.analysis.kernel_count import kernel_counts
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.near_names import near_name_notes

Number: TypeAlias = int | float
Condition: TypeAlias = Callable[[Module, int], Number]
"""Takes a module and the rewrites of the pass so far."""

_MOST_LETTERS = 200

_COMPARE: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}

NAMES: dict[str, tuple[str, Condition]] = {
    "instructions": ("in the module", lambda m, _: m.instruction_count),
    "computations": ("in the module", lambda m, _: len(m.computations)),
    "rewrites": ("of the pass so far", lambda _, rewrites: rewrites),
    "kernels": ("that run", lambda m, _: kernel_counts(m).total()),
    "flops": ("of one run, loops once", lambda m, _: module_cost(m).flops),
    "bytes": ("read and written in one run", lambda m, _: module_cost(m).bytes),
}
"""The counts of a condition, besides `count(OPCODE)`."""


def condition(text: str) -> Condition:
    """Return the function that `text` describes.

    Raises:
        HloError: the text is no condition.
    """
    if len(text) > _MOST_LETTERS:
        raise HloError(f"a condition has at most {_MOST_LETTERS} letters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise HloError(
            f"cannot read the condition {text!r}", notes=("for example: instructions > 500",)
        ) from None
    return _compile(tree.body)


def _compile(tree: ast.expr) -> Condition:
    """Return the condition as nested functions of the module and the number of rewrites."""
    match tree:
        case ast.Constant(value=int() | float() as value):
            return lambda _module, _rewrites: value
        case ast.Name(id=name):
            if name not in NAMES:
                known = ", ".join((*NAMES, "count(OPCODE)"))
                notes = near_name_notes(name, list(NAMES)) or (f"there are {known}",)
                raise HloError(f"there is no count {name!r}", notes=notes)
            return NAMES[name][1]
        case ast.Call(func=ast.Name(id="count"), args=[argument], keywords=[]):
            return _count_of(argument)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _comparison(left, ops, others)
        case ast.BoolOp(op=op, values=values):
            return _joined(isinstance(op, ast.And), [_compile(value) for value in values])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _compile(operand)
            return lambda module, rewrites: not inner(module, rewrites)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            function, a, b = _ARITHMETIC[type(op)], _compile(left), _compile(right)
            return lambda module, rewrites: function(a(module, rewrites), b(module, rewrites))
    raise HloError(f"a condition has no {ast.unparse(tree)!r}", notes=("it compares counts",))


def _count_of(argument: ast.expr) -> Condition:
    opcode = ast.unparse(argument).strip("\"'").replace(" ", "").replace("_", "-")

    def count(module: Module, _rewrites: int) -> int:
        return Counter(inst.opcode.name for inst in all_instructions(module))[opcode]

    return count


def _comparison(left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> Condition:
    if any(type(op) not in _COMPARE for op in ops):
        raise HloError("a condition compares with < <= > >= == !=")
    parts = [_compile(part) for part in (left, *others)]
    functions = [_COMPARE[type(op)] for op in ops]

    def compare(module: Module, rewrites: int) -> bool:
        values = [part(module, rewrites) for part in parts]
        return all(f(a, b) for f, a, b in zip(functions, values, values[1:], strict=False))

    return compare


def _joined(is_and: bool, parts: list[Condition]) -> Condition:
    join = all if is_and else any
    return lambda module, rewrites: join(part(module, rewrites) for part in parts)
