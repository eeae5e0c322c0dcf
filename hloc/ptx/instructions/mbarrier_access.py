"""The instructions of mbarrier and of bulk copies; try_wait ends a block."""

from __future__ import annotations

import numpy as np

from hloc.ptx.code import PhaseWait
from hloc.ptx.faults import LaneFault
from hloc.ptx.frame import Frame
from hloc.ptx.instructions.memory_access import address_reader
from hloc.ptx.instructions.tensor_copies import decode_tensor_copy
from hloc.ptx.lanes import Lanes, lanes_of, numbers_of
from hloc.ptx.mbarriers import BulkCopy
from hloc.ptx.operation import Decoder, Operation, nothing
from hloc.ptx.program import Instruction, Operand
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array


def waits(instruction: Instruction) -> bool:
    """Whether an instruction may block its lanes until a phase completes."""
    return instruction.parts[:2] == ("mbarrier", "try_wait")


def phase_wait(instruction: Instruction, frame: Frame, row: int | None, negated: bool) -> PhaseWait:
    """Return the terminator that waits for a phase."""
    target, address, phase, *_ = instruction.operands
    by_parity = instruction.has("parity")
    return PhaseWait(
        address_reader(address, frame),
        frame.source(phase, TYPES["u32" if by_parity else "u64"]),
        by_parity,
        frame.target(target, TYPES["pred"]),
        row,
        negated,
    )


def decode_mbarrier(instruction: Instruction, frame: Frame) -> Operation:
    """Init, inval, arrive, expect_tx and test_wait."""
    action = instruction.parts[1]
    if action == "init":
        return _initialise(instruction, frame)
    if action == "inval":
        return nothing
    if action in ("arrive", "expect_tx") and not instruction.has("noComplete"):
        return _arrive(instruction, frame)
    if action == "test_wait":
        return _test(instruction, frame)
    raise frame.fault(f"unknown opcode {instruction.opcode}")


def _initialise(instruction: Instruction, frame: Frame) -> Operation:
    read = address_reader(instruction.operands[0], frame)
    count = frame.source(instruction.operands[1], TYPES["u32"])

    def run(threads: Threads, lanes: Lanes) -> None:
        counts = threads.rows[count][lanes]
        threads.mbarriers.initialise(threads, lanes, read(threads, lanes), counts)

    return run


def _number(operand: Operand | None, default: int, frame: Frame) -> int:
    word = TYPES["s32"]
    return frame.constant(default, word) if operand is None else frame.source(operand, word)


def _arrive(instruction: Instruction, frame: Frame) -> Operation:
    """Return the operation of arrive, which may expect bytes, or of expect_tx alone."""
    operands = list(instruction.operands)
    alone = instruction.parts[1] == "expect_tx"
    result = None if alone else operands.pop(0)
    expects = instruction.has("expect_tx")
    address, more = operands[0], operands[1] if len(operands) > 1 else None
    read = address_reader(address, frame)
    count = _number(None if expects else more, 0 if alone else 1, frame)
    bytes_ = _number(more if expects else None, 0, frame)
    target = None if result is None else frame.target(result, TYPES["b64"])

    def run(threads: Threads, lanes: Lanes) -> None:
        rows = threads.rows
        tokens = threads.mbarriers.arrive(
            threads, lanes, read(threads, lanes), rows[count][lanes], rows[bytes_][lanes]
        )
        if target is not None:
            rows[target][lanes] = tokens

    return run


def _test(instruction: Instruction, frame: Frame) -> Operation:
    wait = phase_wait(instruction, frame, None, False)

    def run(threads: Threads, lanes: Lanes) -> None:
        addresses, phases = wait.address(threads, lanes), threads.rows[wait.phase][lanes]
        over = threads.mbarriers.passed(threads, lanes, addresses, phases, wait.by_parity)
        threads.rows[wait.target][lanes] = over
        if not over.any():
            threads.mbarriers.finish_a_copy(threads)
            threads.active = lanes

    return run


def decode_bulk(instruction: Instruction, frame: Frame) -> Operation:
    """cp.async.bulk between global and shared memory; groups of stores complete at once."""
    if instruction.has("commit_group") or instruction.has("wait_group"):
        return nothing
    if instruction.has("tensor"):
        return decode_tensor_copy(instruction, frame)
    spaces = [part.partition("::")[0] for part in instruction.parts[3:5]]
    if spaces == ["shared", "global"] and len(instruction.operands) >= 4:
        return _bulk_load(instruction, frame)
    if spaces == ["global", "shared"]:
        return _bulk_store(instruction, frame)
    raise frame.fault(f"unknown opcode {instruction.opcode}")


def _bulk_load(instruction: Instruction, frame: Frame) -> Operation:
    """Return the operation that starts a copy per lane; its bytes arrive at an mbarrier later."""
    target, source, size, barrier, *_ = instruction.operands
    readers = [address_reader(operand, frame) for operand in (target, source, barrier)]
    length = frame.source(size, TYPES["u32"])

    def run(threads: Threads, lanes: Lanes) -> None:
        targets, sources, barriers = (read(threads, lanes).tolist() for read in readers)
        sizes = threads.rows[length][lanes].tolist()
        for i, lane in enumerate(numbers_of(lanes).tolist()):
            threads.active = np.array([lane])
            if (targets[i] | sources[i] | sizes[i]) % 16:
                raise LaneFault("a bulk copy needs addresses and size in units of 16 bytes", None)
            steps = np.arange(0, sizes[i], 16, dtype=np.uint64)
            threads.active = who = np.full(len(steps), lane)
            places = np.uint64(sources[i]) + steps
            values = threads.spaces["global"].load(who, places, np.dtype(np.uint64), 2)
            place = np.uint64(targets[i]) + steps
            copy = BulkCopy(instruction, lane, place, values, barriers[i])
            threads.mbarriers.begin(threads, copy)
        threads.active = lanes

    return run


def _bulk_store(instruction: Instruction, frame: Frame) -> Operation:
    """Return the operation that stores whole pieces of 16 bytes from shared to global memory."""
    target, source, size, *_ = instruction.operands
    read_target, read_source = address_reader(target, frame), address_reader(source, frame)
    length = frame.source(size, TYPES["u32"])

    def run(threads: Threads, lanes: Lanes) -> None:
        targets, sources = read_target(threads, lanes), read_source(threads, lanes)
        sizes = threads.rows[length][lanes]
        numbers = numbers_of(lanes)
        for step in range(0, int(sizes.max()), 16):
            part: Array = sizes > step
            here = lanes_of(numbers[part])
            threads.active = here
            at = sources[part].astype(np.uint64) + np.uint64(step)
            values = threads.spaces.shared.load_asynchronously(here, at)
            threads.spaces["global"].store(here, targets[part] + np.uint64(step), values)
        threads.active = lanes

    return run


DECODERS: dict[str, Decoder] = {"mbarrier": decode_mbarrier}
