"""One run of the evaluator: the steps of each computation in order, calls nested.

The semantics of every opcode are in its row (`hloc/ops/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias

import numpy as np

import hloc.ops  # noqa: F401  fills the table
from hloc.errors import HloError, UnsupportedError
from hloc.evaluator.arguments import bound_arguments, literal_value
from hloc.evaluator.least_work import check_work, too_much_work
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import CallFunction, HostValue, Operands
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.limits import Limits, current_limits, limit_note, time_check
from hloc.ops.custom_calls.custom_call_targets import flat_arrays
from hloc.ops.participants import devices_reason
from hloc.ops.present_shapes import cut_to_present, has_present_sizes, with_present_sizes
from hloc.shapes import MAX_HOST_RANK, UNBOUNDED, ArrayShape, array_leaves

Change: TypeAlias = Callable[[Instruction, HostValue], HostValue]

MAX_NESTING = 100
"""Deepest nesting of called computations; Python's recursion limit is not far above."""


def evaluate_module(
    module: Module,
    arguments: Sequence[np.ndarray[Any, Any]],
    *,
    fill_constants: str = "error",
    changed: Change | None = None,
) -> list[np.ndarray[Any, Any]]:
    """Run the entry computation of `module`.

    Args:
        module: a verified module, optimised or not.
        arguments: one array per leaf of the parameters, in order, tuples flattened.
        fill_constants: `zeros` lets elided constants be zero, `error` refuses them.
        changed: returns the value that replaces the computed value of an instruction; not called
            for parameters and constants.

    Returns:
        One array per leaf of the result, in order; tokens are left out.

    Raises:
        HloError: arguments do not fit the parameters, a constant is elided, a result is too large
            or the run exceeds a limit (`hloc/limits.py`).
        UnsupportedError: one device cannot run an instruction; the message says which and why.
    """
    run = Run(fill_constants, current_limits(), changed=changed)
    entry = module.entry
    check_work(entry)
    values = bound_arguments(entry, arguments)
    with np.errstate(all="ignore"):
        result = run.call(entry, *values)
    return [np.array(array) for array in flat_arrays(result)]


def evaluate_computation(computation: Computation, *values: HostValue) -> HostValue:
    """Run one computation on host values: arrays, tuples of host values, None for tokens."""
    with np.errstate(all="ignore"):
        return Run("error", current_limits()).call(computation, *values)


# ---------------------------------------------------------------- running


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction to run; values are known by the position of their step in the plan.

    Attributes:
        inst: the instruction.
        operands: positions of the operands.
        frees: positions of values without later users.
        parameter: number of the argument that is the value, -1 if there is none.
        constant: the value of a constant, None for others.
    """

    inst: Instruction
    operands: tuple[int, ...]
    frees: tuple[int, ...]
    parameter: int = -1
    constant: HostValue = None


Plans: TypeAlias = dict[Computation, tuple[tuple[_Step, ...], int]]


class Device(Protocol):
    """One of several devices that run a module together."""

    def runs(self, inst: Instruction) -> bool:
        """Tell whether the device computes the value, not the row: collectives, `replica-id`."""

    def evaluate(self, inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
        """Return the value of an instruction for which `runs` is true."""

    def check_going_on(self) -> None:
        """Raise if the run was cancelled."""


@dataclass(slots=True)
class Run:
    """One evaluation on one device.

    Attributes:
        plans: steps of the computations run so far; devices share them.
        depth: how deep the calls nest.
        done: number of instructions that have started.
        check_time: raises HloError once the run has exceeded its time limit.
        device: None if there is no other device.
        changed: as `evaluate_module` takes it.
    """

    fill_constants: str
    limits: Limits
    plans: Plans = field(default_factory=dict)
    depth: int = 0
    done: int = 0
    check_time: Callable[[], None] = field(
        default_factory=lambda: time_check("run-seconds", "the run")
    )
    device: Device | None = None
    changed: Change | None = None

    def call(self, computation: Computation, *arguments: HostValue) -> HostValue:
        """Run `computation`.

        Scalar parameters may be bound to arrays of one common shape: elementwise instructions
        then compute all elements at once (`hloc/ops/folding.py` decides when this is valid).
        """
        if self.device is not None:
            self.device.check_going_on()
        plan = self.plans.get(computation)
        if plan is None:
            plan = self.plans[computation] = self._plan(computation)
        if self.depth >= MAX_NESTING:
            raise HloError(f"computations nest more than {MAX_NESTING} deep at {computation.name}")
        self.done += len(plan[0])
        if self.done > self.limits.evaluated_instructions:
            raise too_much_work(computation, self.limits)
        self.check_time()
        self.depth += 1
        try:
            return self._run(*plan, arguments)
        finally:
            self.depth -= 1

    def _run(
        self, steps: tuple[_Step, ...], root: int, arguments: tuple[HostValue, ...]
    ) -> HostValue:
        values: list[HostValue] = []
        for step in steps:
            if step.constant is not None:
                values.append(step.constant)
            elif step.parameter >= 0:
                values.append(arguments[step.parameter])
            else:
                operands = tuple([values[position] for position in step.operands])
                value = self._evaluate(step.inst, operands)
                values.append(value if self.changed is None else self.changed(step.inst, value))
            for position in step.frees:
                values[position] = None
        return values[root]

    def _evaluate(self, inst: Instruction, operands: tuple[HostValue, ...]) -> HostValue:
        """Evaluate one instruction, and check type and dimensions of its value against its shape.

        Operands of dynamic sizes are evaluated at their present sizes.
        """
        if self.device is not None and self.device.runs(inst):
            return self.device.evaluate(inst, operands, self.call)
        evaluate = inst.opcode.evaluate
        assert evaluate is not None
        present = inst
        given = operands
        if inst.operands and has_present_sizes(inst, operands):
            present, operands = with_present_sizes(inst, operands)
        try:
            value = evaluate(present, operands, self.call)
        except MemoryError:
            raise HloError(
                f"{inst.opcode.name} {inst.name} of shape {inst.shape.text_without_layout} "
                "needs more memory than is available, or than the evaluator's limit",
                inst.span,
            ) from None
        if present is not inst:
            value = cut_to_present(inst, value, given)
        if isinstance(inst.shape, ArrayShape) and not inst.shape.dtype.is_special:
            value = np.asarray(value)
            assert value.dtype == inst.shape.dtype.numpy, (inst, value.dtype)
            # Other dimensions than declared are right only for scalars computed in batches.
            fits = value.shape == inst.shape.dims or inst.shape.is_scalar
            assert fits or _is_cut(value, inst.shape), (inst, value.shape)
        return value

    def _plan(self, computation: Computation) -> tuple[tuple[_Step, ...], int]:
        """Return the steps that the root, side effects and collectives need; the root's position.

        Operands come first. A collective whose result is unused runs too: other devices may wait
        for this one there.
        """
        effects = [
            inst
            for inst in computation.instructions
            if inst.opcode.side_effect or inst.opcode.exchange is not None
        ]
        order = post_order_from([*effects, computation.root])
        position = {inst: number for number, inst in enumerate(order)}
        last_use = list(range(len(order)))
        for number, inst in enumerate(order):
            self._check_runnable(inst)
            for operand in inst.operands:
                last_use[position[operand]] = number
        frees: list[list[int]] = [[] for _ in order]
        for number, last in enumerate(last_use):
            if order[number] is not computation.root:
                frees[last].append(number)
        steps = tuple(
            self._step(inst, tuple(position[o] for o in inst.operands), tuple(dead))
            for inst, dead in zip(order, frees, strict=True)
        )
        return steps, position[computation.root]

    def _step(self, inst: Instruction, operands: tuple[int, ...], frees: tuple[int, ...]) -> _Step:
        if inst.is_a("parameter"):
            return _Step(inst, operands, frees, parameter=inst.attributes.number)
        if inst.is_a("constant"):
            fill_zeros = self.fill_constants == "zeros"
            value = literal_value(inst.attributes.literal, fill_zeros=fill_zeros)
            return _Step(inst, operands, frees, constant=value)
        return _Step(inst, operands, frees)

    def _check_runnable(self, inst: Instruction) -> None:
        """Raise an error if `inst` has no semantics here, or too large a result."""
        if any(leaf.rank > MAX_HOST_RANK for leaf in array_leaves(inst.shape)):
            raise UnsupportedError(
                f"cannot run {inst.opcode.name} {inst.name}: its result has more than "
                f"{MAX_HOST_RANK} dimensions, the limit of NumPy arrays",
                inst.span,
            )
        if inst.opcode.name in ("parameter", "constant"):
            return
        if self.device is not None and self.device.runs(inst):
            return
        reason = inst.opcode.refusal or devices_reason(inst)
        if inst.opcode.evaluate is None:
            reason = reason or "it has no NumPy semantics"
        if reason:
            raise UnsupportedError(
                f"cannot run {inst.opcode.name} {inst.name}: {reason}", inst.span
            )
        if inst.shape.size_bytes > self.limits.evaluated_bytes and inst.opcode.has_kernel:
            raise self._too_large(inst)

    def _too_large(self, inst: Instruction) -> HloError:
        return HloError(
            f"{inst.opcode.name} {inst.name} of shape {inst.shape.text_without_layout} needs "
            f"{inst.shape.size_bytes} bytes, more than the limit of {self.limits.evaluated_bytes}",
            inst.span,
            notes=(limit_note("evaluated-bytes"),),
        )


def _is_cut(array: np.ndarray[Any, Any], shape: ArrayShape) -> bool:
    """True if every dimension of `array` is at most its bound in `shape`, or is unbounded."""
    return array.ndim == shape.rank and all(
        size <= bound or bound == UNBOUNDED
        for size, bound in zip(array.shape, shape.dims, strict=True)
    )
