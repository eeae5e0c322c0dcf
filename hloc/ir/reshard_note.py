"""Why a collective exists: the resharded value, the instruction that needs it, both shardings.

Stored as frontend attributes of the collective, so that the note is printed, read and kept
by passes: `reshard.value="w1"`, `reshard.needed_by="dot.3"`,
`reshard.before="{devices=[2,1]<=[2]}"`, `reshard.after="{replicated}"`.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace

from hloc.ir.attribute_fields import quoted
from hloc.ir.attributes import CommonAttributes
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_PREFIX = "reshard."
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class ReshardNote:
    """Instruction names before partitioning, and shardings as text.

    Attributes:
        value: the resharded value.
        needed_by: the instruction that needs this sharding, "" for results of the module.
        before, after: its sharding; `partial sums` if an all-reduce is pending.
    """

    value: str
    needed_by: str
    before: str
    after: str


def with_note(common: CommonAttributes, note: ReshardNote) -> CommonAttributes:
    """Return `common` with `note` in place of an earlier one."""
    kept = [pair for pair in common.frontend_attributes if not pair[0].startswith(_PREFIX)]
    kept += [(_PREFIX + f.name, quoted(getattr(note, f.name))) for f in fields(note)]
    return replace(common, frontend_attributes=tuple(sorted(kept)))


def note_of(inst: Instruction) -> ReshardNote | None:
    """Return the note of a collective, None if it has none."""
    pairs = dict(inst.common.frontend_attributes)
    texts = [pairs.get(_PREFIX + field.name) for field in fields(ReshardNote)]
    if None in texts:
        return None
    return ReshardNote(*(_plain(text) for text in texts if text is not None))


def _plain(text: str) -> str:
    """Return a printed value without its quotes."""
    inner = text[1:-1] if text[:1] == text[-1:] == '"' else text
    return _ESCAPED.sub(r"\1", inner)
