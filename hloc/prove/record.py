"""How each rule was proven, as `make prove` recorded it in `proofs.json`, and as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hloc.dtypes import DTYPES
from hloc.opt.rule import Rule
from hloc.prove.bounds import INTEGERS, NARROW_FLOATS
from hloc.prove.proof import ALL_VALUES, IEEE, MOVES, Z3, RuleProof, can_be_proven

FILE = Path(__file__).with_name("proofs.json")

Row = Mapping[str, Any]
"""`cases`, `ways` (types by way), `bound`, `open` (reasons by type)."""

_BY_DESIGN = {
    "reassociates": "roundings differ by design",
    "assumes-finite": "wrong for infinities and NaN by design",
}
_WORDS = {
    Z3: "Z3 bit-vectors: ",
    IEEE: "Z3 IEEE: ",
    ALL_VALUES: "all values: ",
    MOVES: "same terms: ",
}


@cache
def recorded() -> dict[str, Row]:
    """Return the rows by rule."""
    rows: dict[str, Row] = json.loads(FILE.read_text())
    return rows


def row_of(proof: RuleProof) -> Row:
    """Return the row that records a proof; a type counts as `same terms` if that sufficed."""
    ways: dict[str, list[str]] = {}
    for kind in DTYPES:
        needed = proof.ways.get(kind, Counter())
        for way in [w for w in _WORDS if w in needed and (w != MOVES or len(needed) == 1)]:
            ways.setdefault(way, []).append(kind)
    bound = "" if proof.bound is None else str(proof.bound)
    return {"cases": proof.cases, "ways": ways, "bound": bound, "open": dict(proof.open)}


def record_text(rows: Mapping[str, Row]) -> str:
    """Return the file: one line per rule, by name."""
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def proof_text(rule: Rule) -> str:
    """Return how `rule` is proven, in one line.

    `Z3 bit-vectors: pred, integers of 1 to 64 bits (30 modules)`.
    """
    if not can_be_proven(rule):
        return f"property test only: {_BY_DESIGN[rule.exactness]}"
    row = recorded().get(rule.name)
    if row is None:
        return "no proof is recorded"  # a rule of a plug-in
    parts = [f"{_WORDS[way]}{_types(kinds)}" for way, kinds in row["ways"].items()]
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
