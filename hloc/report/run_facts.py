"""Facts of a module for the report of a run, stored with its program for the next run.

With it, `hloc run FILE` runs a file again without parsing it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a module besides its program.

    Attributes:
        headline: `module jit_f  38 instructions / 4 computations   71.7 kFLOP`.
        flops: operations of one run.
        parameters, results: shapes of the array leaves, `f32[8,128]`.
        names: names of the parameter leaves.
        limits: the largest useful value of each parameter leaf used as an index, by number.
    """

    headline: str
    flops: int
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    names: tuple[str, ...]
    limits: dict[int, int]

    def to_text(self) -> str:
        """Return the facts as JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "limits": list(self.limits.items())})

    @classmethod
    def from_text(cls, text: str) -> RunFacts:
        """Return the facts that `to_text` wrote; such texts come from sealed files only."""
        fields: dict[str, Any] = json.loads(text)
        lists = {name: tuple(fields[name]) for name in ("parameters", "results", "names")}
        return cls(fields["headline"], fields["flops"], **lists, limits=dict(fields["limits"]))


def shape_texts(shapes: Sequence[ArrayShape]) -> tuple[str, ...]:
    """Return the shapes as text."""
    return tuple(shape.text_without_layout for shape in shapes)
