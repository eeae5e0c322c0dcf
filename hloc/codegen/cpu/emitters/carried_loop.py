"""Loops with loop-carried values in registers."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter


class CarriedLoop:
    """A loop that is being emitted: its body is the code between the constructor and `close`.

    Attributes:
        values: names of the carried values at the start of an iteration.
    """

    def __init__(
        self, w: RoutineWriter, carried: Sequence[tuple[str, str]], enters: str = ""
    ) -> None:
        """Begin the body.

        Args:
            w: writes the function.
            carried: type and initial value of each carried value.
            enters: whether the body runs at all, "" if it does.
        """
        self._fn, self._carried, self._before = w.fn, carried, w.fn.block
        self._head, self._after = w.fn.new_block(), w.fn.new_block()
        self._may_skip = bool(enters)
        if enters:
            w.fn.branch(enters, self._head, self._after)
        else:
            w.fn.jump(self._head)
        w.fn.start_block(self._head)
        self.values = [w.fn.reserve_value() for _ in carried]
        self._slots = [w.fn.reserve_line() for _ in carried]

    def close(self, later: Sequence[str], again: str) -> list[str]:
        """End the body: repeat it with `later` while `again` is true; return the last values."""
        fn, end = self._fn, self._fn.block
        fn.branch(again, self._head, self._after)
        phis = zip(self._slots, self.values, self._carried, later, strict=True)
        for slot, name, (kind, first), following in phis:
            fn.fill_line(
                slot,
                f"{name} = phi {kind} [ {first}, %{self._before} ], [ {following}, %{end} ]",
            )
        fn.start_block(self._after)
        if not self._may_skip:
            return list(later)
        return [
            fn.value(f"phi {kind} [ {first}, %{self._before} ], [ {following}, %{end} ]")
            for (kind, first), following in zip(self._carried, later, strict=True)
        ]


def rows_of(values: Sequence[str], width: int) -> list[list[str]]:
    """Return values as rows of `width`."""
    return [list(values[first : first + width]) for first in range(0, len(values), width)]
