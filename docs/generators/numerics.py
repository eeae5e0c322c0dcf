"""The tables of docs/numerics.md: where hloc and XLA differ, and the conformance rows by cause.

    python -m docs.generators.numerics > docs/.page.md && mv docs/.page.md docs/numerics.md

The text around the tables is kept. The first table is made from `tests/golden/numerics/*.hlo`,
whose modules `tests/differential/test_numerics.py` runs, the second from
`tests/conformance_causes.json`, by which `tests/conformance_gate.py` judges rows that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "numerics.md"
GOLDEN = ROOT / "tests" / "golden" / "numerics"
CAUSES = ROOT / "tests" / "conformance_causes.json"
ANY = "any"
NO_RESULT = "the process ends"

_LISTS = {"INPUT": "inputs", "HLOC": "hloc", "XLA": "xla", "TRUE": "true"}
_TEXTS = {"CASE": "name", "CAUSE": "cause", "BY": "by", "RIGHT": "right", "WHY": "why"}


@dataclass(frozen=True)
class Difference:
    """One module on which hloc and XLA differ.

    Attributes:
        name: what differs.
        cause: the kind of difference, to which rows of the conformance run refer.
        inputs: one literal per parameter.
        hloc, xla, true: one literal per array of the result; `any` where none is defined.
        by: Python for the true value, with `Fraction`, `math`, `f16` and `f32`; "" if a definition
            says it.
        right: "hloc", "XLA" or "both".
        why: the reason.
        text: the module.
    """

    name: str
    cause: str
    inputs: tuple[str, ...]
    hloc: tuple[str, ...]
    xla: tuple[str, ...]
    true: tuple[str, ...]
    by: str
    right: str
    why: str
    text: str

    @property
    def xla_runs(self) -> bool:
        return self.xla != (NO_RESULT,)


@dataclass(frozen=True)
class Cause:
    """Rows of the conformance run that differ for one reason, by the start of their digest.

    Attributes:
        rows: differ at -O0 and at -O2.
        rows_at_0, rows_at_2: differ at this level only.
        kind: "answer", or "limit" for rows that end by time or memory.
    """

    name: str
    title: str
    right: str
    why: str
    kind: str = "answer"
    rows: tuple[str, ...] = ()
    rows_at_0: tuple[str, ...] = ()
    rows_at_2: tuple[str, ...] = ()


def differences() -> list[Difference]:
    """Return all cases of `tests/golden/numerics`, in the order of files and of cases."""
    return [
        _difference(part)
        for file in sorted(GOLDEN.glob("*.hlo"))
        for part in file.read_text().split("// -----\n")
    ]


def _difference(part: str) -> Difference:
    lists: dict[str, list[str]] = {field: [] for field in _LISTS.values()}
    texts = dict.fromkeys(_TEXTS.values(), "")
    body = []
    for line in part.strip().splitlines():
        key, _, value = line.removeprefix("// ").partition(": ")
        if not line.startswith("// "):
            body.append(line)
        elif key in _LISTS:
            lists[_LISTS[key]].append(value)
        else:
            texts[_TEXTS[key]] = value
    lists["hloc"] = lists["hloc"] or lists["true"]
    found = {field: tuple(values) for field, values in lists.items()}
    return Difference(**texts, **found, text="\n".join(body))  # type: ignore[arg-type]  # by field


def causes() -> list[Cause]:
    """Return the causes of rows that differ, in the order of the file."""
    return [_cause(row) for row in json.loads(CAUSES.read_text())]


def _cause(row: dict[str, Any]) -> Cause:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Cause(**fields)


def page() -> str:
    """Return the page with its tables made anew."""
    text = PAGE.read_text()
    for name, lines in (("differences", _difference_rows()), ("causes", _cause_rows())):
        begin, end = f"<!-- {name}: made by `make docs` -->\n", f"<!-- end of {name} -->\n"
        before, rest = text.split(begin)
        text = before + begin + "\n".join([*lines, ""]) + end + rest.split(end)[1]
    return text


def _difference_rows() -> Iterable[str]:
    yield "| matter | input | exact | XLA:CPU | hloc | right | why |"
    yield "|---|---|---|---|---|---|---|"
    for row in differences():
        values = [_cell(literals) for literals in (row.inputs, row.true, row.xla, row.hloc)]
        yield "| " + " | ".join([row.name, *values, row.right, row.why]) + " |"


def _cell(literals: tuple[str, ...]) -> str:
    """Return literals of arrays without the outer braces of a single element."""
    return ", ".join(_plain(literal) for literal in literals)


def _plain(literal: str) -> str:
    inner = literal
    while inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    return inner if "{" not in inner and "," not in inner else literal


def _cause_rows() -> Iterable[str]:
    yield "| cause | rows at -O2 | at -O0 | right | why |"
    yield "|---|--:|--:|---|---|"
    total_2 = total_0 = 0
    for cause in causes():
        at_2, at_0 = (len(cause.rows) + len(own) for own in (cause.rows_at_2, cause.rows_at_0))
        total_2, total_0 = total_2 + at_2, total_0 + at_0
        yield f"| {cause.title} | {at_2} | {at_0} | {cause.right} | {cause.why} |"
    yield f"| all | {total_2} | {total_0} | | |"


if __name__ == "__main__":
    print(page(), end="")
