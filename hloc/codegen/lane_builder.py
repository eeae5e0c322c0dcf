"""`LlvmBuilder` whose values may be vectors: one element per lane, all made at once.

Loads at positions that differ from lane to lane give `Lanes`, and so does everything that is made
of them; what all lanes share stays a scalar until it meets a vector. Code that knows of scalars
only, functions of `math` too, so writes vectors without knowing. What has no vector form raises
`NeedsScalars`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hloc.codegen.llvm_text import FunctionWriter
from hloc.codegen.scalar_builder import LlvmBuilder, comparison_name
from hloc.codegen.target import Target
from hloc.codegen.values import (
    REPRESENTATIONS,
    VARYING,
    LaneIndex,
    Lanes,
    LaneSlot,
    NeedsScalars,
    Value,
)
from hloc.dtypes import F16, F32, PRED, DType, complex_of, component_of

_ELEMENT_NAMES = {"float": "f32", "double": "f64"}
_IN_FUNCTION = "%"


class LaneBuilder(LlvmBuilder):
    """Writes vectors of `lanes` elements where an operand is one, else what `LlvmBuilder` does.

    Attributes:
        lanes: 0 if there are no vectors.
        is_inside: stack memory for one value is asked for by code that may be given lanes.
        streams: lanes are stored at aligned addresses, and not read soon.
    """

    def __init__(self, fn: FunctionWriter, target: Target, lanes: int = 0) -> None:
        super().__init__(fn, target)
        self.lanes = lanes
        self.is_inside = False
        self.streams = False

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """A region in which `streams` holds; a fence is needed before others may read."""
        self.streams = True
        try:
            yield
        finally:
            self.streams = False

    # ---- vectors of what is given

    def vector_type(self, element: str) -> str:
        return f"<{self.lanes} x {element}>"

    def kind(self, dtype: DType) -> str:
        """Return LLVM's type of lanes of `dtype` in a register."""
        return self.vector_type(REPRESENTATIONS[dtype].register)

    def vector(self, x: Value) -> str:
        """Return the text of a vector: lanes, positions, or the same value in all lanes."""
        if isinstance(x, Lanes):
            return x.text
        if isinstance(x, LaneIndex):
            steps = ", ".join(f"i64 {lane * x.stride}" for lane in range(self.lanes))
            first = self._splat("i64", x.text)
            return self.fn.value(f"add {self.vector_type('i64')} {first}, <{steps}>")
        return self._splat(REPRESENTATIONS[x.dtype].register, x.text)

    def as_lanes(self, x: Value) -> Lanes:
        """Return `x` as one value per lane."""
        return x if isinstance(x, Lanes) else Lanes(x.dtype, self.vector(x))

    def _splat(self, element: str, text: str) -> str:
        if not text.startswith(_IN_FUNCTION):
            return f"splat ({element} {text})"
        kind = self.vector_type(element)
        one = self.fn.value(f"insertelement {kind} poison, {element} {text}, i64 0")
        order = f"{self.vector_type('i32')} zeroinitializer"
        return self.fn.value(f"shufflevector {kind} {one}, {kind} poison, {order}")

    def _made(self, dtype: DType, text: str) -> Lanes:
        return Lanes(dtype, self.fn.value(text))

    # ---- operations

    def float_operation(self, op: str, x: Value, y: Value) -> Value:
        if not (isinstance(x, VARYING) or isinstance(y, VARYING)):
            return super().float_operation(op, x, y)
        flags, kind = self.float_flags, self.kind(x.dtype)
        return self._made(x.dtype, f"{op} {flags} {kind} {self.vector(x)}, {self.vector(y)}")

    def negated(self, x: Value) -> Value:
        if not isinstance(x, VARYING):
            return super().negated(x)
        return self._made(x.dtype, f"fneg {self.kind(x.dtype)} {x.text}")

    def integer_operation(self, op: str, x: Value, y: Value) -> Value:
        if not (isinstance(x, VARYING) or isinstance(y, VARYING)):
            return super().integer_operation(op, x, y)
        kind = self.kind(x.dtype)
        return self._made(x.dtype, f"{op} {kind} {self.vector(x)}, {self.vector(y)}")

    def comparison(self, direction: str, x: Value, y: Value) -> Value:
        if not (isinstance(x, VARYING) or isinstance(y, VARYING)):
            return super().comparison(direction, x, y)
        op = comparison_name(x.dtype, direction)
        return self._made(PRED, f"{op} {self.kind(x.dtype)} {self.vector(x)}, {self.vector(y)}")

    def choice(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        if not any(isinstance(x, VARYING) for x in (pred, on_true, on_false)):
            return super().choice(pred, on_true, on_false)
        kind = self.kind(on_true.dtype)
        condition = f"i1 {pred.text}"
        if isinstance(pred, Lanes):
            condition = f"{self.kind(PRED)} {pred.text}"
        chosen = f"{kind} {self.vector(on_true)}, {kind} {self.vector(on_false)}"
        return self._made(on_true.dtype, f"select {condition}, {chosen}")

    # ---- conversions

    def cast(self, x: Value, dtype: DType) -> Value:
        if not isinstance(x, VARYING):
            return super().cast(x, dtype)
        if not dtype.is_float and x.dtype.bits == dtype.bits:
            return Lanes(dtype, self.vector(x))
        return super().cast(self.as_lanes(x), dtype)

    def _cast(self, op: str, x: Value, dtype: DType) -> Value:
        if not isinstance(x, VARYING):
            return super()._cast(op, x, dtype)
        return self._made(dtype, f"{op} {self.kind(x.dtype)} {x.text} to {self.kind(dtype)}")

    def truncation(self, x: Value, dtype: DType) -> Value:
        if not isinstance(x, VARYING):
            return super().truncation(x, dtype)
        name = "fptosi" if dtype.is_signed else "fptoui"
        kind, source = self.kind(dtype), self.kind(x.dtype)
        symbol = f"@llvm.{name}.sat.{self._suffix(dtype)}.{self._suffix(x.dtype)}"
        self.fn.declare(f"declare {kind} {symbol}({source})")
        return self._made(dtype, f"call {kind} {symbol}({source} {x.text})")

    def reinterpretation(self, x: Value, dtype: DType) -> Value:
        if not isinstance(x, VARYING):
            return super().reinterpretation(x, dtype)
        if REPRESENTATIONS[x.dtype].register == REPRESENTATIONS[dtype].register:
            return Lanes(dtype, self.vector(x))
        return self._cast("bitcast", self.as_lanes(x), dtype)

    def half_to_float(self, x: Value) -> Value:
        if not isinstance(x, VARYING):
            return super().half_to_float(x)
        half = self.vector_type("half")
        value = self.fn.value(f"bitcast {self.kind(F16)} {x.text} to {half}")
        return self._made(F32, f"fpext {half} {value} to {self.kind(F32)}")

    def float_to_half(self, x: Value) -> Value:
        if not isinstance(x, VARYING):
            return super().float_to_half(x)
        half = self.vector_type("half")
        value = self.fn.value(f"fptrunc {self.kind(F32)} {x.text} to {half}")
        return self._made(F16, f"bitcast {half} {value} to {self.kind(F16)}")

    def scaled(self, x: Value, exponent: Value) -> Value:
        if not (isinstance(x, VARYING) or isinstance(exponent, VARYING)):
            return super().scaled(x, exponent)
        floats, words = self.kind(F32), self.vector_type("i32")
        symbol = f"@llvm.ldexp.v{self.lanes}f32.v{self.lanes}i32"
        self.fn.declare(f"declare {floats} {symbol}({floats}, {words})")
        operands = f"{floats} {self.vector(x)}, {words} {self.vector(exponent)}"
        return self._made(F32, f"call {floats} {symbol}({operands})")

    # ---- calls

    def instruction(self, name: str, *args: Value) -> Value:
        if not any(isinstance(x, VARYING) for x in args):
            return super().instruction(name, *args)
        dtype = args[0].dtype
        kind = self.kind(dtype)
        extra = ", i1 false" if name == "ctlz" else ""
        symbol = f"@llvm.{name}.{self._suffix(dtype)}"
        types = ", ".join([kind] * len(args)) + (", i1" if extra else "")
        self.fn.declare(f"declare {kind} {symbol}({types})")
        operands = ", ".join(f"{kind} {self.vector(x)}" for x in args) + extra
        return self._made(dtype, f"call {self.call_flags(name)}{kind} {symbol}({operands})")

    def libm(self, name: str, *args: Value) -> Value:
        if any(isinstance(x, VARYING) for x in args):
            raise NeedsScalars(name)
        return super().libm(name, *args)

    def folded(self, name: str, x: Value) -> Value:
        """Return all lanes of `x` combined by the reducer of that opcode, in any order."""
        short = {"multiply": "mul", "maximum": "fmaximum", "minimum": "fminimum"}.get(name, name)
        dtype, start = x.dtype, ""
        if dtype.is_pred and name == "add":
            short = "or"
        elif dtype.is_float:
            short = {"add": "fadd", "mul": "fmul"}.get(short, short)
        elif name in ("maximum", "minimum"):
            short = ("s" if dtype.is_signed else "u") + name[:3]
        kind, vector = REPRESENTATIONS[dtype].register, self.kind(dtype)
        symbol = f"@llvm.vector.reduce.{short}.{self._suffix(dtype)}"
        if short in ("fadd", "fmul"):
            start = f"{kind} {'-0.0' if short == 'fadd' else '1.0'}, "
            self.fn.declare(f"declare {kind} {symbol}({kind}, {vector})")
        else:
            self.fn.declare(f"declare {kind} {symbol}({vector})")
        flags = "reassoc " if dtype.is_float else ""
        call = f"call {flags}{kind} {symbol}({start}{vector} {self.vector(x)})"
        return Value(dtype, self.fn.value(call))

    def _suffix(self, dtype: DType) -> str:
        """Return the type of lanes as names of intrinsics have it."""
        register = REPRESENTATIONS[dtype].register
        return f"v{self.lanes}{_ELEMENT_NAMES.get(register, register)}"

    # ---- memory

    def load_number(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        if isinstance(pointer, LaneSlot):
            return self._made(dtype, f"load {self.kind(dtype)}, ptr {pointer.text}")
        if not isinstance(index, VARYING):
            return super().load_number(pointer, dtype, index)
        r = REPRESENTATIONS[dtype]
        at = self._neighbours(pointer, dtype, index)
        memory = self.vector_type(r.memory)
        loaded = self.fn.value(f"load {memory}, ptr {at}, align {r.bytes}")
        if not r.is_part:
            return Lanes(dtype, loaded)
        if dtype.is_pred:
            return self._made(dtype, f"icmp ne {memory} {loaded}, zeroinitializer")
        return self._made(dtype, f"trunc {memory} {loaded} to {self.kind(dtype)}")

    def store_number(self, pointer: Value, index: Value | int, value: Value) -> None:
        if isinstance(pointer, LaneSlot):
            text = self.vector(value)
            self.fn.line(f"store {self.kind(value.dtype)} {text}, ptr {pointer.text}")
            return
        if not isinstance(index, VARYING):
            if isinstance(value, VARYING):
                raise NeedsScalars("lanes that are stored in one place")
            super().store_number(pointer, index, value)
            return
        r = REPRESENTATIONS[value.dtype]
        memory, text = self.vector_type(r.memory), self.vector(value)
        if r.is_part:
            text = self.fn.value(f"zext {self.kind(value.dtype)} {text} to {memory}")
        at = self._neighbours(pointer, value.dtype, index)
        if not self.streams:
            self.fn.line(f"store {memory} {text}, ptr {at}, align {r.bytes}")
            return
        self.fn.declare("!2 = !{i32 1}")
        whole = self.lanes * r.bytes
        self.fn.line(f"store {memory} {text}, ptr {at}, align {whole}, !nontemporal !2")

    # ---- complex numbers: real parts and imaginary parts in vectors of their own

    def complex(self, real: Value, imag: Value) -> Value:
        if not (isinstance(real, VARYING) or isinstance(imag, VARYING)):
            return super().complex(real, imag)
        dtype = complex_of(real.dtype)
        assert dtype is not None
        return Lanes(dtype, self.vector(real), self.vector(imag))

    def real(self, z: Value) -> Value:
        return Lanes(component_of(z.dtype), z.text) if isinstance(z, Lanes) else super().real(z)

    def imag(self, z: Value) -> Value:
        return Lanes(component_of(z.dtype), z.imag) if isinstance(z, Lanes) else super().imag(z)

    def load(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        if not dtype.is_complex or not isinstance(index, VARYING):
            return super().load(pointer, dtype, index)
        part = component_of(dtype)
        r = REPRESENTATIONS[part]
        both = f"<{2 * self.lanes} x {r.memory}>"
        at = self._neighbours(pointer, dtype, index)
        loaded = self.fn.value(f"load {both}, ptr {at}, align {r.bytes}")
        real, imag = (
            self._picked(both, loaded, "poison", range(first, 2 * self.lanes, 2))
            for first in (0, 1)
        )
        return Lanes(dtype, real, imag)

    def store(self, pointer: Value, index: Value | int, value: Value) -> None:
        if not value.dtype.is_complex or not isinstance(index, VARYING):
            super().store(pointer, index, value)
            return
        r = REPRESENTATIONS[component_of(value.dtype)]
        half, lanes = self.vector_type(r.memory), self.lanes
        places = [lane + part * lanes for lane in range(lanes) for part in (0, 1)]
        real, imag = (self.vector(x) for x in (self.real(value), self.imag(value)))
        mixed = self._picked(half, real, imag, places)
        at = self._neighbours(pointer, value.dtype, index)
        self.fn.line(f"store <{2 * lanes} x {r.memory}> {mixed}, ptr {at}, align {r.bytes}")

    def _picked(self, kind: str, first: str, second: str, places: Iterable[int]) -> str:
        """Return the elements with those numbers, counted through both vectors."""
        mask = [f"i32 {place}" for place in places]
        order = f"<{len(mask)} x i32> <{', '.join(mask)}>"
        return self.fn.value(f"shufflevector {kind} {first}, {kind} {second}, {order}")

    def _neighbours(self, pointer: Value, dtype: DType, index: Value) -> str:
        """Return the address of lane 0, if the lanes lie side by side."""
        if not isinstance(index, LaneIndex) or index.stride != 1:
            raise NeedsScalars("elements that do not lie side by side")
        return self.address(pointer, dtype, index)

    def allocate(self, dtype: DType, count: int = 1) -> Value:
        if not self.is_inside or count != 1:
            return super().allocate(dtype, count)
        return self.lane_slot(dtype)

    def lane_slot(self, dtype: DType) -> LaneSlot:
        """Return stack memory for one value per lane."""
        if dtype.is_complex:
            raise NeedsScalars("variables that are complex")
        return LaneSlot(dtype, self.fn.allocate(self.kind(dtype)))
