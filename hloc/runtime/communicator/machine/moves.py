"""The work of one rendezvous, in pieces that any thread may do.

A reduction is split into runs of elements: each is reduced into memory on the stack, in the order
of the ranks, and copied to the results of the members, so operands and results may share memory.
All other exchanges move `rows` of bytes from an operand of one member to a result of another: a
transfer.
"""

from __future__ import annotations

from hloc.codegen.llvm.python_subset_stubs import Words, call, cast, memcpy, memset, stack
from hloc.runtime.communicator.machine.stubs import (
    Address,
    Exchange,
    Opcode_,
    Pieces,
    Rendezvous,
    World,
)


def piece_count(what: Exchange, rendezvous: Rendezvous) -> int:
    """Return the number of pieces of the work; negative if one thread should do them all."""
    members = rendezvous.members
    pieces = 0
    moved = 0
    for i in range(what.operands):
        operand = what.operand[i]
        size = operand.outer * operand.count * operand.inner_bytes
        moved += size * members
        if what.opcode <= Opcode_.reduce_scatter:
            pieces += runs_of(operand)
        else:
            pieces += transfers(what, rendezvous) * chunks_of(what, i)
    if what.opcode == Opcode_.ragged_all_to_all:
        return -1
    if what.opcode == Opcode_.all_to_all and what.is_tuple:
        pieces = members * members * chunks_of(what, 0)
    if moved <= 65536 or members == 1:
        return -pieces
    return pieces


def run_piece(what: Exchange, rendezvous: Rendezvous, piece: int) -> None:
    """Do piece number `piece` of the work."""
    if what.opcode == Opcode_.ragged_all_to_all:
        move_ragged(what, rendezvous)
        return
    if what.opcode <= Opcode_.reduce_scatter:
        number = 0
        while piece >= runs_of(what.operand[number]):
            piece -= runs_of(what.operand[number])
            number += 1
        reduce_run(what, rendezvous, number, piece)
        return
    operand = 0
    if not (what.opcode == Opcode_.all_to_all and what.is_tuple):
        while piece >= transfers(what, rendezvous) * chunks_of(what, operand):
            piece -= transfers(what, rendezvous) * chunks_of(what, operand)
            operand += 1
    chunks = chunks_of(what, operand)
    move_chunk(what, rendezvous, operand, piece // chunks, piece % chunks)


def fill_alone(what: Exchange, arrays: Words) -> None:
    """Fill the results of a device that is in no group with zeros."""
    for i in range(what.results):
        result = what.result[i]
        memset(arrays[what.operands + i], 0, result.outer * result.count * result.inner_bytes)


# ---- reductions


def runs_of(operand: Pieces) -> int:
    """Return the number of runs of 4,096 elements of an operand."""
    size = operand.outer * operand.count * operand.inner_bytes
    count: int = (size // operand.element_bytes + 4095) // 4096
    return count


def reduce_run(what: Exchange, rendezvous: Rendezvous, number: int, run: int) -> None:
    """Reduce one run of operand `number` and copy it to the results."""
    operand = what.operand[number]
    size = operand.outer * operand.count * operand.inner_bytes
    begin = run * 4096 * operand.element_bytes
    length = min(size - begin, 4096 * operand.element_bytes)
    members = rendezvous.members
    inputs = stack(members + 1)
    total = stack(8192)
    for rank in range(members):
        inputs[rank] = rendezvous.arrays[rank][number] + begin
    inputs[members] = total
    call(rendezvous.combiners[number], inputs, length // operand.element_bytes)
    if what.opcode == Opcode_.all_reduce:
        for rank in range(members):
            memcpy(rendezvous.arrays[rank][what.operands + number] + begin, total, length)
    else:
        scatter(what, rendezvous, number, total, begin, length)


def scatter(
    what: Exchange, rendezvous: Rendezvous, number: int, total: Address, begin: int, length: int
) -> None:
    """Copy a run of the whole sum to the members whose pieces overlap it."""
    operand = what.operand[number]
    inner = operand.inner_bytes
    done = 0
    while done < length:
        position = begin + done
        within = position % inner
        block = position // inner
        count = min(inner - within, length - done)
        result = rendezvous.arrays[block % operand.count][what.operands + number]
        target = result + block // operand.count * inner + within
        copy(target, total + done, count)
        done += count


# ---- transfers


def transfers(what: Exchange, rendezvous: Rendezvous) -> int:
    """Return the number of transfers: one per pair of members, or one per receiver."""
    members: int = rendezvous.members
    if what.opcode == Opcode_.all_gather or what.opcode == Opcode_.all_to_all:
        return members * members
    return members


def row_bytes(what: Exchange, operand: int) -> int:
    """Return the bytes of one row of a transfer."""
    bytes: int = what.operand[operand].inner_bytes
    return bytes


def chunks_of(what: Exchange, operand: int) -> int:
    """Return the number of pieces of each transfer of an operand, at least one."""
    row = row_bytes(what, operand)
    total: int = row * what.operand[operand].outer
    chunk = chunk_bytes(row)
    if total <= chunk:
        return 1
    return (total + chunk - 1) // chunk


def chunk_bytes(row: int) -> int:
    """Return the size of a piece of a transfer in bytes: whole rows if they are short."""
    if row == 0 or row >= 65536:
        return 65536
    return 65536 // row * row


def move_chunk(
    what: Exchange, rendezvous: Rendezvous, operand: int, transfer: int, chunk: int
) -> None:
    """Do one piece of one transfer."""
    members = rendezvous.members
    receiver = transfer
    sender = 0
    if transfers(what, rendezvous) > members:
        sender = transfer // members
        receiver = transfer % members
    row = row_bytes(what, operand)
    rows = what.operand[operand].outer
    source_array = operand
    target_array = operand
    source_stride = row
    target_stride = row
    source_offset = 0
    target_offset = 0
    if what.opcode == Opcode_.all_gather:
        target_stride = row * members
        target_offset = row * sender
    elif what.opcode == Opcode_.all_to_all:
        if what.is_tuple:
            source_array = receiver
            target_array = sender
        else:
            source_stride = row * members
            target_stride = row * members
            source_offset = row * receiver
            target_offset = row * sender
    elif what.opcode == Opcode_.collective_permute:
        sender = what.source_of[rendezvous.devices[receiver]]
    begin = chunk * chunk_bytes(row)
    end = min(begin + chunk_bytes(row), row * rows)
    target = rendezvous.arrays[receiver][what.operands + target_array] + target_offset
    if sender < 0:
        memset(target + begin, 0, end - begin)
        return
    source = rendezvous.arrays[sender][source_array] + source_offset
    if begin % row == 0 and end % row == 0:
        first = begin // row
        copy_rows(
            target + first * target_stride, target_stride,
            source + first * source_stride, source_stride, row, (end - begin) // row,
        )  # fmt: skip
        return
    while begin < end:
        number = begin // row
        within = begin % row
        count = min(row - within, end - begin)
        memcpy(
            target + number * target_stride + within,
            source + number * source_stride + within,
            count,
        )
        begin += count


def copy_rows(
    target: Address, target_stride: int, source: Address, source_stride: int, row: int, rows: int
) -> None:
    """Copy rows of `row` bytes, a stride apart; short ones without calls."""
    if target_stride == row and source_stride == row:
        memcpy(target, source, row * rows)
    elif row == 4:
        for i in range(rows):
            cast("int32_t*", target + i * target_stride)[0] = cast(
                "int32_t*", source + i * source_stride
            )[0]
    elif row % 8 == 0 and row <= 64:
        for i in range(rows):
            target_words = cast("int64_t*", target + i * target_stride)
            source_words = cast("int64_t*", source + i * source_stride)
            for j in range(row // 8):
                target_words[j] = source_words[j]
    else:
        for i in range(rows):
            copy(target + i * target_stride, source + i * source_stride, row)


def copy(target: Address, source: Address, bytes: int) -> None:
    """Copy a few bytes: 1, 2 or 4 by a load and a store, else by `memcpy`."""
    if bytes == 4:
        cast("int32_t*", target)[0] = cast("int32_t*", source)[0]
    elif bytes == 2:
        cast("int16_t*", target)[0] = cast("int16_t*", source)[0]
    elif bytes == 1:
        cast("int8_t*", target)[0] = cast("int8_t*", source)[0]
    else:
        memcpy(target, source, bytes)


# ---- rows of unequal number


def ragged_fault(world: World, what: Exchange, rendezvous: Rendezvous) -> int:
    """Return 1 if rows lie outside of the arrays; `world.fault_*` then say which."""
    members = rendezvous.members
    updates = what.operand[2].outer // members
    rows = what.operand[0].outer
    room = what.operand[1].outer
    for sender in range(members):
        arrays = rendezvous.arrays[sender]
        for i in range(members * updates):
            start = number_at(what.operand[2], arrays[2], i)
            count = number_at(what.operand[3], arrays[3], i)
            target = number_at(what.operand[4], arrays[4], i)
            if (
                start < 0
                or count < 0
                or target < 0
                or start + count > rows
                or target + count > room
            ):
                world.fault_device = rendezvous.devices[sender]
                world.fault_count = count
                world.fault_start = start
                world.fault_target = target
                return 1
    return 0


def move_ragged(what: Exchange, rendezvous: Rendezvous) -> None:
    """Copy operand 1 of each member to its result, then the rows that the others send."""
    members = rendezvous.members
    updates = what.operand[2].outer // members
    row = what.operand[0].inner_bytes
    for rank in range(members):
        arrays = rendezvous.arrays[rank]
        memcpy(arrays[6], arrays[1], row * what.operand[1].outer)
    for sender in range(members):
        arrays = rendezvous.arrays[sender]
        for receiver in range(members):
            for i in range(updates):
                place = receiver * updates + i
                start = number_at(what.operand[2], arrays[2], place)
                count = number_at(what.operand[3], arrays[3], place)
                target = number_at(what.operand[4], arrays[4], place)
                result = rendezvous.arrays[receiver][6]
                memcpy(result + target * row, arrays[0] + start * row, count * row)


def number_at(array: Pieces, address: Address, place: int) -> int:
    """Return an element of an array of integers."""
    size = array.element_bytes
    if size == 8:
        return cast("int64_t*", address)[place]  # type: ignore[no-any-return]
    if size == 4:
        if array.is_signed:
            return cast("int32_t*", address)[place]  # type: ignore[no-any-return]
        return cast("uint32_t*", address)[place]  # type: ignore[no-any-return]
    if size == 2:
        if array.is_signed:
            return cast("int16_t*", address)[place]  # type: ignore[no-any-return]
        return cast("uint16_t*", address)[place]  # type: ignore[no-any-return]
    if array.is_signed:
        return cast("int8_t*", address)[place]  # type: ignore[no-any-return]
    return cast("uint8_t*", address)[place]  # type: ignore[no-any-return]
