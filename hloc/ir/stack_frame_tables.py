"""Stack-frame tables, renumbered as XLA does when it prints (format reference, section 6)."""

from __future__ import annotations

from collections.abc import Iterable

from hloc.ir.attribute_fields import quoted
from hloc.ir.attributes import FileLocation, Metadata, StackFrame, StackFrames


class FrameNumbering:
    """New numbers for the frames that instructions name, by first use."""

    def __init__(self, old: StackFrames) -> None:
        self._old = old
        self._new_ids: dict[int, int] = {}
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._locations: dict[FileLocation, int] = {}
        self._frames: dict[StackFrame, int] = {}

    def number(self, metadata: Iterable[Metadata]) -> None:
        """Number the frames of `metadata`, in order."""
        for entry in metadata:
            if entry.stack_frame_id and entry.stack_frame_id not in self._new_ids:
                self._number_chain(entry.stack_frame_id)

    def _number_chain(self, frame_id: int) -> None:
        """Number `frame_id` and those of its callers that have no number, outermost first."""
        chain: list[int] = []
        while 0 < frame_id <= len(self._old.frames) and frame_id not in self._new_ids:
            if frame_id in chain:
                break  # a cycle of parents: cut it here
            chain.append(frame_id)
            frame_id = self._old.frames[frame_id - 1].parent_frame_id - 1
        parent = self._new_ids.get(frame_id, 0)
        for old_id in reversed(chain):
            location = self._location(self._old.frames[old_id - 1].file_location_id)
            frame = StackFrame(location, parent + 1)
            parent = self._frames.setdefault(frame, len(self._frames) + 1)
            self._new_ids[old_id] = parent

    def _location(self, old_id: int) -> int:
        if not 0 < old_id <= len(self._old.file_locations):
            return 0
        old = self._old.file_locations[old_id - 1]
        new = FileLocation(
            _number_of(self._files, self._old.file_names, old.file_name_id),
            _number_of(self._functions, self._old.function_names, old.function_name_id),
            old.line, old.end_line, old.column, old.end_column,
        )  # fmt: skip
        return self._locations.setdefault(new, len(self._locations) + 1)

    def new_id(self, old_id: int) -> int:
        """Return the number `old_id` has in the printed tables, 0 if it names no frame."""
        return self._new_ids.get(old_id, 0)

    def tables(self) -> StackFrames:
        """Return the tables in their new order."""
        return StackFrames(
            tuple(self._files), tuple(self._functions), tuple(self._locations), tuple(self._frames)
        )


def _number_of(known: dict[str, int], names: tuple[str, ...], old_id: int) -> int:
    if not 0 < old_id <= len(names):
        return 0
    return known.setdefault(names[old_id - 1], len(known) + 1)


def tables_text(tables: StackFrames) -> str:
    """Return the four tables and two blank lines, or nothing when no frame is used."""
    if not tables.frames:
        return ""
    lines = ["FileNames"]
    lines += [f"{i} {quoted(name)}" for i, name in enumerate(tables.file_names, 1)]
    lines += ["", "FunctionNames"]
    lines += [f"{i} {quoted(name)}" for i, name in enumerate(tables.function_names, 1)]
    lines += ["", "FileLocations"]
    lines += [
        f"{i} {{file_name_id={x.file_name_id} function_name_id={x.function_name_id} line={x.line} "
        f"end_line={x.end_line} column={x.column} end_column={x.end_column}}}"
        for i, x in enumerate(tables.file_locations, 1)
    ]
    lines += ["", "StackFrames"]
    lines += [
        f"{i} {{file_location_id={x.file_location_id} parent_frame_id={x.parent_frame_id}}}"
        for i, x in enumerate(tables.frames, 1)
    ]
    return "\n".join(lines) + "\n\n\n"
