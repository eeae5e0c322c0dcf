"""The forms of the loops around micro-kernels: where rows and columns lie."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import AHEAD, IN_PLACE, LINES, PANELS
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NestForm:
    """The parameters of the text of the loops.

    Attributes:
        rows, columns: how they lie in memory: `IN_PLACE`, `LINES`, `PANELS`, or otherwise.
    """

    rows: str
    columns: str

    @property
    def name(self) -> str:
        """The name of the routine."""
        rows = "direct" if self.rows in IN_PLACE else _form_name(self.rows)
        return f"nest_{rows}_{_form_name(self.columns)}"

    @property
    def is_direct(self) -> bool:
        """True if rows are read in place."""
        return self.rows in IN_PLACE

    @property
    def packs_ahead(self) -> bool:
        """True if the next block of columns is packed while tiles multiply."""
        return self.columns == AHEAD

    @property
    def is_packed(self) -> bool:
        """True if columns are packed already."""
        return self.columns == PANELS


def _form_name(form: str) -> str:
    return form if form in (LINES, PANELS, AHEAD) else "gathered"
