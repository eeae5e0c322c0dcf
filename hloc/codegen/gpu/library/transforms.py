"""Fourier transforms for cuFFT, whose inverse transforms are unscaled.

Source: cuFFT documentation, cufftMakePlanMany. Its real inverses of several dimensions overwrite
their operand, so hloc's own kernels compute them.
"""

from __future__ import annotations

from math import prod

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.library.arguments import operand_number, result_number
from hloc.codegen.gpu.library_call import FourierCall
from hloc.dtypes import C64, C128
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, row_major

_INVERSES = ("IFFT", "IRFFT")


def match(inst: Instruction) -> FourierCall | None:
    """Return the call for an fft of row-major arrays, None if cuFFT does not support it."""
    if not inst.is_a("fft"):
        return None
    kind, lengths = inst.attributes.fft_type, tuple(inst.attributes.fft_length)
    (operand,) = inst.operands
    narrow = operand.array if kind == "IRFFT" else inst.array  # the complex side
    if kind == "IRFFT" and (len(lengths) > 1 or operand.array.dims[-1] != lengths[-1] // 2 + 1):
        return None
    if not all(map(_is_row_major, (operand.array, inst.array))) or not inst.array.elements:
        return None
    if narrow.dtype not in (C64, C128):
        return None
    return FourierCall(
        kind,
        lengths,
        prod(inst.array.dims[: -len(lengths)]),
        narrow.dtype,
        operand_number(inst, operand),
        result_number(inst),
    )


def _is_row_major(shape: ArrayShape) -> bool:
    return shape.minor_to_major == row_major(shape.rank).minor_to_major


def finish(w: LaunchWriter, call: FourierCall) -> None:
    """Emit the launch that divides an inverse transform by the number of elements."""
    if call.kind not in _INVERSES:
        return
    output = w.inst.array
    with w.each(output.elements) as (k, number):
        flat = k.output.flat(output.elements)
        value = flat.load(k.math, (number,))
        size = k.b.const(value.dtype, prod(call.lengths))
        flat.store(k.math, (number,), k.b.fdiv(value, size))
