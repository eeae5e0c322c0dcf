"""Faults of a simulated kernel: raised deep inside, reported with position and thread."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.errors import HloError
from hloc.ptx.program import Instruction

Triple = tuple[int, int, int]


class PtxFault(HloError):
    """A fault of a PTX program or of its launch.

    `kernel`, `line`, `text`, `block` and `thread` give the position, as far as it is known.
    """

    def __init__(
        self,
        what: str,
        *,
        kernel: str = "",
        line: int = 0,
        text: str = "",
        block: Triple | None = None,
        thread: Triple | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Say what is wrong, and where as far as it is known."""
        self.what = what
        self.kernel = kernel
        self.line = line
        self.text = text
        self.block = block
        self.thread = thread
        places = [f"line {line}: `{text}`"] if line else []
        if block is not None:
            places.append(f"block {block}")
        if thread is not None:
            places.append(f"thread {thread}")
        head = f"kernel {kernel}: " if kernel else ""
        where = [f"at {', '.join(places)}"] if places else []
        super().__init__(f"{head}{what}", notes=[*where, *notes])


class LaneFault(Exception):
    """A fault of one lane of the current instruction; the machine adds the position.

    Attributes:
        lane: position among the active ones, None for the first.
        instruction: the instruction at fault, if that is not the current one.
    """

    def __init__(
        self, what: str, lane: int | None = None, instruction: Instruction | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.lane = lane
        self.instruction = instruction
