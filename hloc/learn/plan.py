"""Contents of check.toml: the kind of exercise, modules with goals, questions."""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable
from typing import Any

import hloc
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.learn.catalogue import Lesson
from hloc.learn.measure import quantity

KINDS = ("pass", "answers", "schedule")
_GOAL = re.compile(r"([\w.-]+)\s*(<=|>=|==)\s*(\d+)")
_CONTAINS = re.compile(r"must_(not_)?contain\s+([\w-]+)")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Goal:
    """`ops.transpose <= 0`."""

    quantity: str
    sign: str
    bound: int

    def fault(self, value: int) -> str:
        """Return the message for `value`, "" if the goal is met."""
        if _COMPARE[self.sign](value, self.bound):
            return ""
        return f"{self.quantity} is {value:,}, wanted {self.sign} {self.bound:,}"


@dataclass(frozen=True, slots=True)
class Task:
    """A module that a pass is tried on.

    Attributes:
        text: the module.
        hint: shown when a check of it fails.
        compare: `exact`, `tolerance`, or a number of units in the last place.
    """

    name: str
    text: str
    goals: tuple[Goal, ...]
    hint: str
    compare: str | int

    def module(self) -> Module:
        """Return a newly parsed module."""
        return hloc.parse(self.text)


@dataclass(frozen=True, slots=True)
class Question:
    """A question whose answer is computed from the module, or given.

    Attributes:
        query: `shape add.7` and the like (see `answers.py`), "" if `expect` is the answer.
        text: the module that it is about.
    """

    key: str
    ask: str
    query: str
    expect: Any
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class LessonPlan:
    """The checks of an exercise.

    Attributes:
        passes: the pipeline to run; "" runs the passes of the file in text order.
        then: a pipeline that runs after them.
        fast_math: allow rules that are not exact.
    """

    kind: str
    passes: str
    then: str
    fast_math: bool
    tasks: tuple[Task, ...]
    questions: tuple[Question, ...]


def read_plan(lesson: Lesson) -> LessonPlan:
    """Read check.toml of `lesson`.

    Raises:
        HloError: it is not TOML, or has unknown keys or values.
    """
    try:
        table = tomllib.loads(lesson.read("check.toml"))
    except tomllib.TOMLDecodeError as fault:
        raise HloError(f"{lesson.folder / 'check.toml'}: {fault}") from None
    kind = table.get("kind", "pass")
    if kind not in KINDS:
        raise HloError(f"check.toml: kind is one of {', '.join(KINDS)}, not {kind!r}")
    compare = table.get("compare", "exact")
    for key in ("module", "question"):
        if not all(isinstance(row, dict) for row in table.get(key, [])):
            raise HloError(f"check.toml: write [[{key}]] above each {key}")
    tasks = [task for row in table.get("module", ()) for task in _tasks(lesson, row, compare)]
    questions = [_question(lesson, row) for row in table.get("question", ())]
    return LessonPlan(
        kind,
        table.get("passes", ""),
        table.get("then", ""),
        bool(table.get("fast_math", False)),
        tuple(tasks),
        tuple(questions),
    )


def _tasks(lesson: Lesson, row: dict[str, Any], compare: str | int) -> list[Task]:
    """Return the tasks of one `[[module]]`: one, or one per type, called DTYPE in the text."""
    text = row.get("text") or lesson.read(_needed(row, "file"))
    name = row.get("name") or _needed(row, "file")
    goals = tuple(map(parse_goal, row.get("goals", ())))
    hint, how = row.get("hint", ""), row.get("compare", compare)
    if not isinstance(how, int) and how not in ("exact", "tolerance"):
        raise HloError(f"check.toml: compare is exact, tolerance or a number of ulp, not {how!r}")
    if "dtypes" not in row:
        return [Task(name, text, goals, hint, how)]
    return [
        Task(f"{name}, {dtype}", text.replace("DTYPE", dtype), goals, hint, how)
        for dtype in row["dtypes"]
    ]


def _question(lesson: Lesson, row: dict[str, Any]) -> Question:
    text = row.get("text") or lesson.read(row.get("file", "input.hlo"))
    return Question(
        _needed(row, "key"),
        _needed(row, "ask"),
        row.get("query", ""),
        row.get("expect"),
        text,
        row.get("hint", ""),
    )


def _needed(row: dict[str, Any], key: str) -> str:
    """Return the text under `key`, which a row of check.toml must have."""
    value = row.get(key)
    if not isinstance(value, str):
        raise HloError(f"check.toml: a [[module]] or [[question]] lacks {key!r}")
    return value


def parse_goal(text: str) -> Goal:
    """Read `instrs <= 12`, `must_contain custom-call` or `must_not_contain tanh`.

    Raises:
        HloError: a text of another form, or an unknown quantity.
    """
    if match := _CONTAINS.fullmatch(text.strip()):
        sign, bound = ("<=", 0) if match[1] else (">=", 1)
        return Goal(f"ops.{match[2]}", sign, bound)
    match = _GOAL.fullmatch(text.strip())
    if match is None:
        raise HloError(f"check.toml: expected a goal such as 'ops.transpose <= 0', found {text!r}")
    quantity(match[1], hloc.parse("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }"))
    return Goal(match[1], match[2], int(match[3]))
