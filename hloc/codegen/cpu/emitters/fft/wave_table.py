"""Tables of cosines and sines: the routine that computes one, and its entries."""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.kernels.butterflies import Butterflies, Complex
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F64, S64, DType

TABLE = ("ptr %cosines", "ptr %sines")


def table_entry(v: Vectors, table: tuple[Value, Value], at: IndexValue) -> Complex:
    """Return entry `at` of a table of cosines and sines, in all lanes."""
    index = at if isinstance(at, Value) else Value(S64, str(at))
    cosine, sine = (v.b.load(part, v.dtype, index) for part in table)
    return v.splat(cosine), v.splat(sine)


@cache
def table_routine(dtype: DType, target: Target) -> Routines:
    """Return the routine for a table of cosines and sines of `count` angles, in ascending order.

    It multiplies those of the first `block` angles by that of the first angle of each of `blocks`,
    in f64. Both counts are multiples of `TABLE_UNIT`.
    """
    lanes = target.vector_bytes // F64.storage_bytes
    tables = [f"ptr noalias %{name}" for name in ("cosines", "sines")]
    sources = [
        f"ptr noalias readonly %{kind}_{name}"
        for kind in ("first", "next")
        for name in ("cosines", "sines")
    ]

    def write(w: RoutineWriter) -> None:
        m, v = w.math, Vectors(w.b, F64, lanes)
        count, block = argument("%count"), argument("%block")
        first, following = (
            tuple(pointer_value(f"%{kind}_{name}") for name in ("cosines", "sines"))
            for kind in ("first", "next")
        )
        with w.body.loop(0, argument("%blocks")) as number:
            begin, turn = m.mul(number, block), table_entry(v, (first[0], first[1]), number)
            with w.body.loop(0, m.minimum(block, m.sub(count, begin)), lanes) as i:
                wave = v.load(following[0], i), v.load(following[1], i)
                found = Butterflies(v, inverse=False).mul(wave, turn)
                for name, x in zip(("%cosines", "%sines"), found, strict=True):
                    narrow = Vectors(w.b, dtype, lanes)
                    if dtype is not F64:
                        x = w.fn.value(f"fptrunc {v.type} {x} to {narrow.type}")
                    narrow.store(pointer_value(name), m.add(begin, i), x)

    parameters = (*tables, *sources, "i64 %count", "i64 %block", "i64 %blocks")
    return routine_unit(f"fft_{dtype.name}_table", parameters, write, target)
