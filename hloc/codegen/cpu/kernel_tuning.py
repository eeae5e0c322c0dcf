"""What autotuning found about a kernel."""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass

ERROR = 0.1
"""The model of the machine errs if its choice takes longer than the fastest by more than this."""


@dataclass(frozen=True, slots=True)
class KernelTuning:
    """The measured choices of one kernel.

    Attributes:
        name: of its instruction.
        choices: in words; the first is the choice of the model.
        seconds: least processor time of a run of each; None for one that was not measured.
        best: number of the choice that is used.
        gain: how many times longer the choice of the model takes, compared with it in turn.
        is_kept: the times come from the cache.
    """

    name: str
    choices: tuple[str, ...]
    seconds: tuple[float | None, ...]
    best: int
    gain: float
    is_kept: bool

    @property
    def is_error(self) -> bool:
        """True if the model of the machine errs."""
        return self.gain > 1 + ERROR
