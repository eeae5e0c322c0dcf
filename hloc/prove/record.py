"""How each rule was proven, as `make prove` recorded it in `proofs.json`, and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hloc.dtypes import DTYPES
from hloc.opt.rule import Rule

FILE = Path(__file__).with_name("proofs.json")

Row = Mapping[str, Any]
"""`cases`, `ways` (types by way), `bound`, `open` (reasons by type)."""

_BY_DESIGN = {
    "reassociates": "roundings differ by design",
    "assumes-finite": "wrong for infinities and NaN by design",
}
MOVES, Z3, IEEE, ALL_VALUES = "same terms", "z3", "ieee", "all values"
WAYS = {
    Z3: "Z3 bit-vectors",
    IEEE: "Z3 IEEE",
    ALL_VALUES: "all values",
    MOVES: "same terms",
}
"""How a module was proven, with the words for readers: by Z3's bit-vectors, by Z3's IEEE numbers,
by running it on all values, or because both sides are the same terms."""

INTEGERS = tuple(d for d in DTYPES.values() if d.is_integer)
NARROW_FLOATS = tuple(d for d in DTYPES.values() if d.is_float and d.bits <= 16)


def can_be_proven(rule: Rule) -> bool:
    """True for exact rules, and for those that are exact except the sign of zero."""
    return rule.exactness in ("exact", "ignores-zero-sign")


@cache
def recorded() -> dict[str, Row]:
    """Return the rows by rule."""
    rows: dict[str, Row] = json.loads(FILE.read_text())
    return rows


def proof_text(rule: Rule) -> str:
    """Return how `rule` is proven, in one line.

    `Z3 bit-vectors: pred, integers of 1 to 64 bits (30 modules)`.
    """
    if not can_be_proven(rule):
        return f"property test only: {_BY_DESIGN[rule.exactness]}"
    row = recorded().get(rule.name)
    if row is None:
        return "no proof is recorded"  # a rule of a plug-in
    parts = [f"{WAYS[way]}: {_types(kinds)}" for way, kinds in row["ways"].items()]
    if row["bound"]:
        parts.append(f"all shapes of {row['bound']}")
    text = f"{'; '.join(parts)} ({row['cases']:,} module{'s' * (row['cases'] != 1)})"
    left: dict[str, list[str]] = {}
    for kind, reason in row["open"].items():
        left.setdefault(reason.replace(f" of {kind}", "").replace("symbol", "the type"), []).append(
            kind
        )
    open_ = "; ".join(f"{_types(kinds)} ({reason})" for reason, kinds in left.items())
    return f"{text}; property test only: {open_}" if left else text


def _types(kinds: Sequence[str]) -> str:
    """Return a text of types, with one word for a whole family."""
    left, words = list(kinds), []
    for members, word in (
        ([d.name for d in INTEGERS], "integers of 1 to 64 bits"),
        ([d.name for d in INTEGERS if d.bits >= 8], "integers of 8 to 64 bits"),
        ([d.name for d in INTEGERS if d.is_signed], "s1 to s64"),
        ([d.name for d in INTEGERS if d.is_unsigned], "u1 to u64"),
        ([d.name for d in NARROW_FLOATS], "floats of 4 to 16 bits"),
        ([d.name for d in NARROW_FLOATS if d.bits == 8], "f8 types"),
    ):
        if set(members) <= set(left):
            left = [kind for kind in left if kind not in members]
            words.append(word)
    singles = [kind for kind in left if kind != "pred"]
    return ", ".join([*(["pred"] if "pred" in left else []), *words, *singles])
