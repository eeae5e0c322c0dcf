"""Running states: compiled code in the child process, the evaluator in this one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc import driver
from hloc.analysis.extract import without_signature
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions
from hloc.report.answers import is_too_large
from hloc.report.compare import Bounds, Comparison, compare
from hloc.report.conditioning import Conditioning, conditioning_of
from hloc.report.inputs import parameter_leaves, result_leaves
from hloc.report.no_gain import SAME_TIME
from hloc.shapes import ArrayShape, TupleShape, array_leaves
from repl.devices import devices_of, input_arrays, with_devices_of
from repl.session import Session
from repl.state import State

Array = np.ndarray[Any, np.dtype[Any]]

_BENCH_SECONDS = 0.4
_RUN_SECONDS = 0.02
"""Seconds for which `run` repeats the call: the first of a fresh process is the slowest."""

_GPU_LEVEL = 2
"""Level of LLVM for GPU code, as in `hloc`; passes are those of the session."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of one instruction in one run.

    Attributes:
        arrays: its leaves.
        shapes: their shapes.
    """

    name: str
    arrays: tuple[Array, ...]
    shapes: tuple[ArrayShape, ...]

    def summaries(self) -> tuple[str, ...]:
        """Return a line per leaf: smallest, largest, mean, NaN; "" for a leaf without numbers."""
        return tuple(map(_summary, self.arrays))


@dataclass(frozen=True, slots=True)
class RunResult:
    """Results of a run of the current state, and how they compare with the loaded module's.

    Attributes:
        watched: values of the instructions that `watch` names.
        print_all: show all elements.
        conditioning: the conditioning of outputs that differ by more than a few ulp.
    """

    state: State
    outputs: tuple[Array, ...]
    wall_ms: float
    comparison: Comparison | None
    compared_with: str
    inputs: str
    watched: tuple[Value, ...] = ()
    print_all: bool = False
    conditioning: tuple[Conditioning, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of one state."""

    label: str
    how: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Bench:
    """Times of several states on the same inputs, the first to compare with.

    Attributes:
        no_gain: what bounds the time of the last state, "" if it is faster than the first.
    """

    rows: tuple[Timed, ...]
    inputs: str
    no_gain: str = ""

    @property
    def is_faster(self) -> bool:
        """True if the last state is clearly faster than the first."""
        return self.rows[-1].median < SAME_TIME * self.rows[0].median


def _summary(array: Array) -> str:
    if array.size < 2 or array.dtype == np.bool_ or np.iscomplexobj(array):
        return ""
    values = array.astype(np.float64)
    nans = int(np.isnan(values).sum())
    finite = values[np.isfinite(values)]
    if not finite.size:
        return f"no finite element, {nans} NaN"
    ends = f"min {finite.min():.6g}, max {finite.max():.6g}, mean {finite.mean():.6g}"
    return f"{ends}, {nans} NaN, {values.size - finite.size - nans} infinite"


def bounds_of(session: Session) -> Bounds:
    """Return the error bounds that are set."""
    return Bounds(session.settings.bound("rtol"), session.settings.bound("atol"))


def options_of(session: Session, target: str = "") -> CompileOptions:
    """Return the options with which states are compiled, without passes.

    Args:
        session: has the settings.
        target: "" for that of the settings.
    """
    settings = session.settings
    target = target or settings.text("target")
    simulator = settings.text("simulate") if target != "cpu" else "off"
    return CompileOptions(
        opt_level=0 if target == "cpu" else _GPU_LEVEL,
        target=target,
        cpu=settings.text("gpu-chip") if target == "nvptx64" else "",
        simulate="" if simulator == "off" else simulator,
        fast_math=settings.is_on("fast-math"),
        fill_constants=settings.text("fill-constants"),
    )


def run_compiled(session: Session, module: Module, arrays: Sequence[Array]) -> list[Array]:
    """Run `module` in the child process, compiled without passes."""
    return _run_timed(session, module, arrays)[0]


def _run_timed(
    session: Session, module: Module, arrays: Sequence[Array], seconds: float = 0.0
) -> tuple[list[Array], tuple[float, ...]]:
    timeout = session.settings.number("timeout")
    timeout += seconds if seconds > _RUN_SECONDS else 0.0
    options = options_of(session)
    devices = devices_of(session.origin.module)
    if devices > 1:
        module = with_devices_of(session.origin.module, module)
    answer = session.child.run(
        module, options, arrays, timeout=timeout, seconds=seconds, devices=devices
    )
    return list(answer.outputs), answer.seconds


def evaluate(session: Session, module: Module, arrays: Sequence[Array]) -> list[Array]:
    """Run `module` in the evaluator."""
    fill = session.settings.text("fill-constants")
    origin = session.origin.module
    if devices_of(origin) > 1:
        parts = [list(array) for array in arrays]
        counted = with_devices_of(origin, module)
        results = driver.evaluate_devices(counted, parts, fill_constants=fill)
        return [np.stack(own) for own in results]
    return driver.evaluate(module, *arrays, fill_constants=fill)


def run(session: Session, *, interpret: bool = False, print_all: bool = False) -> RunResult:
    """Run the current state and compare with the loaded module.

    The loaded module runs in the evaluator, or compiled if that would take too long.
    """
    state, origin = session.current, session.origin
    check_runnable(session, state)
    if parameter_leaves(state.module) != parameter_leaves(origin.module):
        origin = state  # an edit has changed the parameters
    arrays = input_arrays(session.inputs, origin.module)
    described = session.inputs.describe(origin.module)
    session.progress.detail = f"{'evaluating' if interpret else 'compiling'} {state.label}"
    if interpret:
        started = time.perf_counter()
        outputs = evaluate(session, state.module, arrays)
        wall_ms = (time.perf_counter() - started) * 1e3
    else:
        outputs, seconds = _run_timed(session, state.module, arrays, _RUN_SECONDS)
        session.seconds[state] = statistics.median(seconds[1:] or seconds)
        wall_ms = session.seconds[state] * 1e3
    watched = tuple(_watched(session, arrays))
    comparison, compared_with = None, ""
    conditioning: list[Conditioning] = []
    if not (interpret and state is origin):
        large = is_too_large(origin.module)
        same = result_leaves(state.module) == result_leaves(origin.module)
        if same and not (large and state is origin):
            runner = run_compiled if large else evaluate
            session.progress.detail = f"{'compiling' if large else 'evaluating'} {origin.label}"
            want = runner(session, origin.module, arrays)
            comparison = compare(outputs, want, bounds_of(session))
            compared_with = f"{origin.label} {'compiled' if large else 'in the evaluator'}"
            conditioning = _conditioning_of_outputs(
                comparison, origin.module, arrays, outputs, want
            )
    return RunResult(
        state,
        tuple(outputs),
        wall_ms,
        comparison,
        compared_with,
        described,
        watched,
        print_all,
        tuple(conditioning),
    )


def _conditioning_of_outputs(
    comparison: Comparison,
    module: Module,
    arrays: Sequence[Array],
    outputs: Sequence[Array],
    want: Sequence[Array],
) -> list[Conditioning]:
    """Return the conditioning of outputs that differ; none for a program of several devices."""
    if devices_of(module) > 1:
        return []
    return conditioning_of(comparison, module, arrays, outputs, want)


def check_runnable(session: Session, state: State) -> None:
    """Raise HloError if a state is invalid, or has constants without values."""
    if state.faults:
        raise HloError(f"{state.label} is invalid: {state.faults[0]}", notes=("undo goes back",))
    if session.settings.text("fill-constants") == "error":
        for inst in all_instructions(state.module):
            if inst.is_a("constant") and inst.attributes.literal.is_elided:
                raise HloError(
                    f"constant {inst.name} has no values: the text elides them as {{...}}",
                    notes=("set fill-constants=zeros uses zeros",),
                )


def value_of(session: Session, name: str) -> Value:
    """Return the value of an instruction of the entry computation, by the evaluator."""
    inst = session.find(name)
    arrays = input_arrays(session.inputs, session.origin.module)
    return values_of(session, [inst], arrays)[0]


def _watched(session: Session, arrays: Sequence[Array]) -> list[Value]:
    """Return the values that `watch` names and that the state still has."""
    names = set(session.watched)
    entry = session.current.module.entry
    found = [inst for inst in entry.instructions if inst.name in names]
    return values_of(session, found, arrays) if found else []


def values_of(
    session: Session, insts: Sequence[Instruction], arrays: Sequence[Array]
) -> list[Value]:
    """Return the values of instructions of the entry computation on the inputs `arrays`."""
    module = module_that_returns(insts)
    runner = run_compiled if is_too_large(module) else evaluate
    outputs = iter(runner(session, module, arrays))
    found = []
    for inst in insts:
        shapes = tuple(array_leaves(inst.shape))
        found.append(Value(inst.name, tuple(next(outputs) for _ in shapes), shapes))
    return found


def module_that_returns(insts: Sequence[Instruction]) -> Module:
    """Return a copy of the module whose entry returns the values of `insts`.

    Raises:
        HloError: one is in another computation, which runs once, often or never.
    """
    for inst in insts:
        if inst.computation is not inst.computation.module.entry:
            raise HloError(
                f"{inst.name} is in {inst.computation.name}, "
                "a called computation: it has no single value"
            )
    module = clone_module(insts[0].computation.module)
    module.set_config(without_signature(module.config))
    entry = module.entry
    by_uid = {inst.uid: inst for inst in entry.instructions}
    found = [by_uid[inst.uid] for inst in insts]
    shape = TupleShape(tuple(inst.shape for inst in found))
    entry.set_root(entry.add(opcode_row("tuple"), shape, found))
    return module


def bench(session: Session, labels: Sequence[str]) -> Bench:
    """Time states, by default s0 and the current one, on the inputs of `run`."""
    chosen = [session.state(label) for label in labels]
    if not chosen:
        chosen = [session.origin, session.current]
    arrays = input_arrays(session.inputs, session.origin.module)
    rows = []
    states = list(dict.fromkeys(chosen))
    for state in session.progress.track("bench", states, lambda state: state.label):
        check_runnable(session, state)
        _, seconds = _run_timed(session, state.module, arrays, _BENCH_SECONDS)
        timed = seconds[1:] or seconds
        rows.append(Timed(state.label, state.how, tuple(sorted(timed))))
        session.seconds[state] = rows[-1].median
    return Bench(tuple(rows), session.inputs.describe(session.origin.module))


def compare_xla(session: Session) -> RunResult:
    """Run the current state with hloc and the loaded module with XLA, and compare.

    XLA gets the module as it was loaded: it may not accept the result of hloc's passes.

    Raises:
        HloError: jax is not installed, or XLA refuses the module.
    """
    from hloc.jax.xla_program import is_installed

    if not is_installed():
        raise HloError("compare xla needs the package jax", notes=("pip install 'hloc[jax]'",))
    state = session.current
    check_runnable(session, state)
    arrays = input_arrays(session.inputs, session.origin.module)
    outputs, seconds = _run_timed(session, state.module, arrays)
    timeout = session.settings.number("timeout")
    answer = session.child.run_by_xla(session.origin.module, arrays, timeout)
    want = [np.asarray(w) for w in answer.outputs]
    comparison = compare(outputs, want, bounds_of(session))
    fastest = min(answer.seconds) * 1e3
    return RunResult(
        state,
        tuple(outputs),
        seconds[0] * 1e3,
        comparison,
        f"{session.origin.label} by XLA ({fastest:.2f} ms)",
        session.inputs.describe(session.origin.module),
        conditioning=tuple(
            _conditioning_of_outputs(comparison, session.origin.module, arrays, outputs, want)
        ),
    )
