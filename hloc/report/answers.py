"""The results of a module on sets of inputs, and where two modules differ.

Used to check passes, so by default both sides run in the reference evaluator; a module that is too
large for it runs compiled at -O0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc import driver
from hloc.analysis.cost import module_cost
from hloc.dtypes import Array
from hloc.errors import HloError, UnsupportedError
from hloc.ir.module import Module
from hloc.ir.sharded_signature import is_partitioned, sharded_signature
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass
from hloc.report.compare import Bounds, compare
from hloc.report.inputs import random_inputs, special_inputs
from hloc.report.time_limit import TookTooLong, time_limit
from hloc.runtime.arena import clear_stops, stop_all
from hloc.runtime.shards import cut_all, join_all

Answer: TypeAlias = list[Array] | None
Runner: TypeAlias = Callable[[Module, Sequence[Array]], list[Array]]

EVALUATOR_FLOPS = 500_000_000
EVALUATOR_BYTES = 2_000_000_000
EVALUATOR_SECONDS = 20.0
LARGE_INPUT_BYTES = 64 << 20
ENDLESS = "it does not terminate"


@dataclass(frozen=True, slots=True)
class InputSet:
    """Inputs of a run, with a name for messages."""

    name: str
    arrays: list[Array]


def input_sets(module: Module, seed: int = 0, *, special: bool = True) -> list[InputSet]:
    """Return two sets of random inputs and one of special values; indices are in range in all.

    Large inputs have one random set only. Without `special` there are no special values: fast
    math leaves their results undefined.
    """
    first = InputSet(f"random inputs, seed {seed}", random_inputs(module, seed))
    if sum(array.nbytes for array in first.arrays) > LARGE_INPUT_BYTES:
        return [first]
    second = InputSet(f"random inputs, seed {seed + 1}", random_inputs(module, seed + 1))
    if not special:
        return [first, second]
    return [first, InputSet("special values", special_inputs(module, seed)), second]


def is_random(module: Module) -> bool:
    """True if HLO does not define the result: `rng` may draw any numbers."""
    return any(inst.is_a("rng") for inst in all_instructions(module))


def is_too_large(module: Module) -> bool:
    """True if the evaluator would take too long, by a cost without trip counts."""
    cost = module_cost(module)
    return cost.flops + cost.transcendentals > EVALUATOR_FLOPS or cost.bytes > EVALUATOR_BYTES


def evaluated(
    module: Module, arrays: Sequence[Array], seconds: float = EVALUATOR_SECONDS
) -> list[Array]:
    """Run `module` in the evaluator within a time limit; elided constants are zeros.

    A partitioned module takes and returns whole arrays, as before it was partitioned.

    Raises:
        HloError: it cannot be evaluated.
        TookTooLong: the time limit was reached.
    """
    with time_limit(seconds):
        if not is_partitioned(module):
            return driver.evaluate(module, *arrays, fill_constants="zeros")
        signature = sharded_signature(module)
        parts = driver.evaluate_devices(module, cut_all(arrays, signature), fill_constants="zeros")
        wholes = join_all(parts, signature)
    found = [whole for whole in wholes if whole is not None]
    if len(found) < len(wholes):
        raise HloError("the results of the devices do not make whole arrays")
    return found


def compiled(module: Module, arrays: Sequence[Array]) -> list[Array]:
    """Run `module` without passes, compiled at -O0."""
    return list(driver.compile_as_it_stands(module)(*arrays))


def within(runner: Runner, seconds: float) -> Runner:
    """Return `runner` with a time limit for each run, which also stops loops of compiled code."""

    def run(module: Module, arrays: Sequence[Array]) -> list[Array]:
        """Run, and stop evaluator and compiled code when the time is over."""
        over = threading.Event()

        def ring() -> None:
            over.set()
            stop_all()

        timer = threading.Timer(seconds, ring)
        timer.daemon = True
        timer.start()
        try:
            with time_limit(seconds):
                return runner(module, arrays)
        except KeyboardInterrupt:
            if over.is_set():
                raise TookTooLong from None
            raise
        finally:
            timer.cancel()
            timer.join()
            clear_stops()

    return run


def patience_for(seconds: float) -> float:
    """Return the time limit for a variant of a module that took `seconds`.

    A variant that takes much longer is an endless loop, which a pass or a cut can easily create.
    """
    return min(EVALUATOR_SECONDS, 1.0 + 10.0 * seconds)


def runner_for(module: Module) -> Runner:
    """Return the evaluator, or the compiler for a module that is too large for it."""
    return compiled if is_too_large(module) else evaluated


def answer_of(module: Module, inputs: InputSet, runner: Runner) -> Answer:
    """Return the results of `module`, None if it cannot be run on these inputs."""
    try:
        return runner(module, inputs.arrays)
    except (HloError, UnsupportedError, TookTooLong):
        return None


def difference(
    module: Module, inputs: Sequence[InputSet], wanted: Sequence[Answer], runner: Runner
) -> str:
    """Return where the results of `module` differ from `wanted`, "" if nowhere.

    A wanted result of None is not compared; a new one of None is a difference.
    """
    for given, want in zip(inputs, wanted, strict=True):
        if want is None:
            continue
        try:
            got = runner(module, given.arrays)
        except TookTooLong:
            return f"{ENDLESS} ({given.name})"
        except HloError as fault:
            return f"it no longer runs: {fault.message} ({given.name})"
        found = differing(got, want)
        if found:
            return f"{found} ({given.name})"
    return ""


def differing(got: Sequence[Array], want: Sequence[Array]) -> str:
    """Return `out0[3] is 2.0, expected 1.0` for the worst element, "" if all are close enough."""
    kinds = [[(a.dtype, a.shape) for a in arrays] for arrays in (got, want)]
    if kinds[0] != kinds[1]:
        return "the results have other types or shapes"
    found = compare(got, want, Bounds())
    if found.ok or found.worst is None:
        return ""
    worst = found.worst
    more = f", and {found.bad - 1:,} more elements differ" if found.bad > 1 else ""
    return f"{worst.place} is {worst.got}, expected {worst.want}{more}"
