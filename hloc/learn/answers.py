"""Question exercises: the right answers are computed from the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hloc
from hloc.errors import HloError, printable
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.learn.measure import quantity
from hloc.learn.plan import Question
from hloc.learn.report import Finding

_QUERIES: dict[str, Callable[[Instruction], Any]] = {
    "shape": lambda inst: inst.shape.text_without_layout,
    "layout": lambda inst: str(inst.shape),
    "opcode": lambda inst: inst.opcode.name,
    "users": lambda inst: {user.name for user in inst.users},
    "operands": lambda inst: [operand.name for operand in inst.operands],
    "called": lambda inst: {computation.name for computation in inst.called},
    "computation": lambda inst: inst.computation.name,
    "bytes": lambda inst: inst.shape.size_bytes,
    "elements": lambda inst: inst.array.elements,
}


def right_answer(question: Question) -> Any:
    """Return the right answer: text, number, list, or a set of names.

    `query` is one of `shape`, `layout`, `opcode`, `users`, `operands`, `called`, `computation`,
    `bytes`, `elements` and the name of an instruction; `root`; `value`, what the module returns
    when it is run; or a quantity of a goal, such as `instrs`.
    """
    if not question.query:
        return question.expect
    module = hloc.parse(question.text)
    what, _, name = question.query.partition(" ")
    if what == "root":
        return module.entry.root.name
    if what == "value":
        (value,) = hloc.evaluate(module)
        return value.tolist()
    if what in _QUERIES:
        return _QUERIES[what](_instruction(module, name))
    return quantity(question.query, module)


def _instruction(module: Module, name: str) -> Instruction:
    for inst in all_instructions(module):
        if inst.name == name:
            return inst
    raise HloError(f"check.toml: the module has no instruction {name!r}")


def check_answers(questions: tuple[Question, ...], given: Any) -> list[Finding]:
    """Compare the answers `given`, a dict by key, with the right ones."""
    if not isinstance(given, dict):
        return [Finding("answers", False, "expected a dict called ANSWERS in the file")]
    found = []
    for question in questions:
        name = f"{question.key}: {question.ask}"
        if given.get(question.key) is None:
            found.append(Finding(name, False, "no answer yet"))
            continue
        answer = given[question.key]
        if is_same(answer, right_answer(question)):
            found.append(Finding(name, True))
        else:
            hint = f"\n{question.hint}" if question.hint else ""
            found.append(Finding(name, False, f"{_shown(answer)} is not it{hint}"))
    return found


def is_same(answer: Any, right: Any) -> bool:
    """True if the answers are equal; NaN equals NaN, -0.0 differs from 0.0, spaces are ignored."""
    if isinstance(right, set):
        if isinstance(answer, str):
            answer = [part for part in answer.replace(",", " ").split() if part]
        return isinstance(answer, list | tuple | set | frozenset) and _names(answer) == right
    if isinstance(right, list | tuple):
        return (
            isinstance(answer, list | tuple)
            and len(answer) == len(right)
            and all(is_same(a, r) for a, r in zip(answer, right, strict=True))
        )
    if isinstance(right, str):
        return isinstance(answer, str) and _squeezed(answer) == _squeezed(right)
    if isinstance(right, bool) or isinstance(answer, bool):
        return answer is right
    if not isinstance(answer, int | float):
        return False
    if isinstance(right, float):
        return _same_float(float(answer), right)
    return bool(answer == right)


def _same_float(answer: float, right: float) -> bool:
    if np.isnan(right) or right == 0:
        return bool(np.isnan(answer)) if np.isnan(right) else _is_same_zero(answer, right)
    return answer == right or bool(np.float32(answer) == np.float32(right))


def _is_same_zero(answer: float, right: float) -> bool:
    return answer == 0 and bool(np.signbit(answer) == np.signbit(right))


def _names(answer: Any) -> set[str]:
    return {str(name).removeprefix("%").strip() for name in answer}


def _squeezed(text: str) -> str:
    return "".join(text.split()).removeprefix("%").lower()


def _shown(answer: Any) -> str:
    text = printable(repr(answer))
    return text if len(text) <= 80 else text[:77] + "..."
