"""Source locations of instructions, from metadata and stack frames."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.ir.attributes import StackFrames
from hloc.ir.instruction import Instruction


def origin_of(inst: Instruction) -> str:
    """Return `train.py:31 in loss`, the innermost Python frame; "" if unknown.

    A stack frame has the function; `source_file` and `source_line` of the metadata do not.
    """
    frame = next(iter(origins_of(inst)), "")
    metadata = _placed(inst).common.metadata
    if frame or metadata is None or not metadata.source_file:
        return frame
    line = f":{metadata.source_line}" if metadata.source_line else ""
    return metadata.source_file + line


def origins_of(inst: Instruction) -> tuple[str, ...]:
    """Return the whole Python stack, innermost frame first, as `train.py:31 in loss`."""
    metadata = _placed(inst).common.metadata
    if metadata is None or not metadata.stack_frame_id:
        return ()
    return tuple(_frames(inst.computation.module.stack_frames, metadata.stack_frame_id))


def _placed(inst: Instruction) -> Instruction:
    """Return `inst`, or its nearest single caller with a known place.

    For the body of a library function, such as a sort, JAX records only the place of the call.
    """
    found, seen = inst, {inst.computation}
    while not found.common.is_placed and len(found.computation.callers) == 1:
        (found,) = found.computation.callers
        if found.computation in seen:  # recursion, which the verifier will refuse
            return inst
        seen.add(found.computation)
    return found


def _frames(tables: StackFrames, frame_id: int) -> Iterator[str]:
    """Yield the texts of frame `frame_id` and its callers; a cycle of parents is cut."""
    seen: set[int] = set()
    while 0 < frame_id <= len(tables.frames) and frame_id not in seen:
        seen.add(frame_id)
        frame = tables.frames[frame_id - 1]
        text = _location(tables, frame.file_location_id)
        if text:
            yield text
        frame_id = frame.parent_frame_id - 1


def _location(tables: StackFrames, location_id: int) -> str:
    if not 0 < location_id <= len(tables.file_locations):
        return ""
    location = tables.file_locations[location_id - 1]
    if not 0 < location.file_name_id <= len(tables.file_names):
        return ""
    place = f"{tables.file_names[location.file_name_id - 1]}:{location.line}"
    if not 0 < location.function_name_id <= len(tables.function_names):
        return place
    return f"{place} in {tables.function_names[location.function_name_id - 1]}"
