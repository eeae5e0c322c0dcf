"""The graph beside a diff on the page of `--dump-dir`: a page of `hloc graph` for each pass.

It is a separate file, so that the page loads only the graph that is shown: one of 20,000
instructions has 2 to 4 MB.
"""

from __future__ import annotations

import os

from hloc.analysis.diff.module_diff import ModuleDiff
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.output_file import write_form
from hloc.pictures.changes import changes_between
from hloc.pictures.page import page
from hloc.pictures.places import BOXES_AT_START
from hloc.pictures.scene import scene_of

_MOST_INSTRUCTIONS = 50_000
"""Larger modules have no graph: drawing takes about 0.15 ms of processor time an instruction."""


@dataclass(slots=True, eq=False)
class StepGraph:
    """Draws the module after each pass, with what the pass changed marked.

    Attributes:
        folder: where the files go.
        before: a copy of the module before the next pass.
    """

    folder: str
    before: Module

    def write(self, module: Module, name: str, diff: ModuleDiff) -> str | None:
        """Write `name.html` and return its name, None if the module is too large to be drawn.

        Args:
            module: the state after a pass.
            name: the pass and its number.
            diff: what the pass changed.

        Raises:
            HloError: the file cannot be written.
        """
        before, self.before = self.before, clone_module(module)
        if module.instruction_count > _MOST_INSTRUCTIONS:
            return None
        scene = scene_of(module.entry, None, changes_between(before, module, diff))
        write_form(os.path.join(self.folder, f"{name}.html"), page(scene, BOXES_AT_START))
        return f"{name}.html"
