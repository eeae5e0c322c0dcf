"""Factorisations by SciPy's LAPACK, called from machine code.

A kernel receives the routine's address as an argument. It copies one matrix after another into the
routine's memory and calls it; no Python runs.
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import LIBRARY_FUNCTION, KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.linalg.lapack import LapackCall, lapack_call
from hloc.codegen.kernels.linalg.lapack_routines import (
    Argument,
    MatrixCopy,
    Memory,
    NoFunction,
    RealVectors,
    Result,
)
from hloc.dtypes import S32, component_of
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan the kernel of a custom call that becomes a LAPACK call."""
    call = lapack_call(inst)
    if call is None:
        return None
    size = sum(_room(argument) for argument in call.arguments)
    return KernelPlan(partial(_emit, call), scratch_bytes=size, library_function=call.routine)


def _room(argument: Argument) -> int:
    return aligned_bytes(argument.size_bytes) if isinstance(argument, Memory) else 0


def _emit(call: LapackCall, k: KernelContext) -> None:
    """Write the loop over the batch, on one thread: the library has threads of its own."""
    for number in call.untouched:
        k.b.clear(k.outputs[number].pointer, call.results[number].size_bytes)
    dims = call.batch_dims
    with k.body.nest(dims, range(len(dims))) as batch:
        _Matrix(call, k, tuple(batch)).emit()


class _Matrix:
    """The code for one matrix of the batch."""

    def __init__(self, call: LapackCall, k: KernelContext, batch: tuple[IndexValue, ...]) -> None:
        self.call, self.k, self.batch = call, k, batch
        self.dims = call.sources[0].dims[-2:]
        self.matrices: dict[MatrixCopy | RealVectors, IrArray] = {}
        offset, pointers = 0, []
        for argument in call.arguments:
            pointers.append(self._pointer(argument, offset))
            offset += _room(argument)
        self.given = ", ".join(f"ptr {pointer}" for pointer in pointers)

    def emit(self) -> None:
        """Copy the operands, call the routine, and convert its results."""
        call, k = self.call, self.k
        is_finite = self._copied()
        for number, source in enumerate(k.inputs[1:], 1):
            with k.body.loop(0, call.sources[number].dims[-1]) as i:
                index = (*self.batch, i)
                k.outputs[number].store(k.math, index, source.load(k.math, index))
        if is_finite is None:
            self._call()
            return
        with k.body.when(is_finite):
            self._call()
        with k.body.when(k.b.not_(is_finite)):
            self._fail()

    def _copied(self) -> Value | None:
        """Copy the matrix; if the routine needs finite numbers, return whether all are finite."""
        k, b, (m, n) = self.k, self.k.b, self.dims
        copies = [a for kind, a in self.matrices.items() if isinstance(kind, MatrixCopy)]
        part = component_of(self.call.dtype)
        total = b.allocate(part)
        b.store(total, 0, b.const(part, 0))
        with k.body.loop(0, n) as j, k.body.loop(0, m) as i:
            value = k.inputs[0].load(k.math, (*self.batch, i, j))
            if copies:
                copies[0].store(k.math, (i, j), value)
            else:
                k.outputs[0].store(k.math, (*self.batch, i, j), value)
            if not self.call.takes_all_numbers:
                for number in [b.real(value), b.imag(value)] if value.dtype.is_complex else [value]:
                    nothing = b.fmul(number, b.const(part, 0))
                    b.store(total, 0, b.fadd(b.load(total, part, 0), nothing))
        if self.call.takes_all_numbers:
            return None
        return b.compare("EQ", b.load(total, part, 0), b.const(part, 0))

    def _call(self) -> None:
        self.k.fn.line(f"call void {LIBRARY_FUNCTION}({self.given})")
        for argument, array in self.matrices.items():
            if isinstance(argument, RealVectors):
                self._complex_vectors(array, self.k.outputs[argument.result])

    def _complex_vectors(self, source: IrArray, target: IrArray) -> None:
        """Write columns `x, y` of a pair of complex values as `x + iy, x - iy`."""
        k, b, m, n = self.k, self.k.b, self.k.math, self.dims[1]
        part, zero = source.dtype, b.const(source.dtype, 0)
        with k.body.loop(0, n) as j:
            imaginary = k.outputs[1].load(m, (*self.batch, j))
            is_first, is_second = b.compare("GT", imaginary, zero), b.compare("LT", imaginary, zero)
            is_second = b.and_(is_second, m.compare("GT", j, 0))
            is_first = b.and_(is_first, m.compare("LT", m.add(j, 1), n))
            column = b.select(is_second, m.value(m.sub(j, 1)), m.value(j))
            beside = b.select(is_first, m.value(m.add(j, 1)), m.value(j))
            sign = b.select(is_second, b.const(part, -1), b.const(part, 1))
            sign = b.select(b.or_(is_first, is_second), sign, zero)
            with k.body.loop(0, n) as i:
                real = source.load(m, (i, column))
                second = b.fmul(sign, source.load(m, (i, beside)))
                target.store(m, (*self.batch, i, j), b.complex(real, second))

    def _fail(self) -> None:
        """Set all results to NaN, and `info` to failure."""
        k, depth = self.k, len(self.batch)
        for output, shape in zip(k.outputs, self.call.results, strict=True):
            dims = shape.dims[depth:]
            with k.body.nest(dims, range(len(dims))) as index:
                value = 1 if shape.dtype is S32 else float("nan")
                output.store(k.math, (*self.batch, *index), k.b.const(shape.dtype, value))

    def _pointer(self, argument: Argument, offset: int) -> str:
        """Return the address of an argument; memory lies at `offset` in the scratch memory."""
        k = self.k
        if isinstance(argument, NoFunction):
            return "null"
        if isinstance(argument, str):
            return k.fn.byte_constant(argument.encode())
        if isinstance(argument, int):
            return k.fn.global_constant("i32", str(argument))
        if isinstance(argument, Result):
            output, shape = k.outputs[argument.number], self.call.results[argument.number]
            index = (*self.batch, *[0] * (shape.rank - len(self.batch)))
            place = k.math.linear(index, output.strides)
            assert isinstance(place, (int, Value))
            return k.b.address(output.pointer, output.dtype, place)
        pointer = k.b.offset_pointer(k.scratch, offset)
        if isinstance(argument, (MatrixCopy, RealVectors)):
            self.matrices[argument] = IrArray(
                pointer, self.call.dtype, self.dims, (1, self.dims[0])
            )
        return pointer.text
