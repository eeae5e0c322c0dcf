"""An `LlvmBuilder` whose values may be vectors, one element per lane.

A load at indices that differ between lanes returns `Lanes`, and so does every operation on `Lanes`;
values that all lanes share stay scalar until they meet a vector. Code written for scalars, such as
the functions of `math`, therefore produces vectors unchanged. Operations without a vector form
raise `NeedsScalars`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hloc.codegen.builder import narrow_float
from hloc.codegen.builder.divisor import Divisor, divisor_of, quotient
from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import (
    REPRESENTATIONS,
    VARYING,
    LaneIndex,
    Lanes,
    LaneSlot,
    LaneSlots,
    NeedsScalars,
    Representation,
    Value,
    suffix_of,
    vector_of,
)
from hloc.codegen.llvm.target import Target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import F32, F64, PRED, S32, S64, DType, complex_of, component_of

_IN_FUNCTION = "%"
_WITH_MEMORY_OPERANDS = ("fadd", "fsub", "fmul")
_MOST_APART = 4
"""Largest stride between lanes for which whole vectors are loaded and shuffled."""
_MOST_APART_OF_TWO = 8
"""The same where one instruction picks elements of two vectors in any order."""
_SCALED_BITS = 512
"""Width of the vectors for which LLVM has an intrinsic that scales by powers of two."""


class LaneBuilder(LlvmBuilder):
    """Writes vectors of `lanes` elements where an operand is one, else what `LlvmBuilder` does.

    Attributes:
        lanes: 0 if there are no vectors.
        is_inside: stack slots for one value are requested by code whose values may be lanes.
        streams: stores of lanes are aligned and non-temporal.
        mask: of the lanes that are in memory, as LLVM text; "" for all.
        reads_apart: elements with a large stride are loaded one by one; otherwise that is refused,
            since a loop that does little else should run in another order.
        writes_apart: so are elements stored.
    """

    def __init__(self, fn: FunctionWriter, target: Target, lanes: int = 0) -> None:
        super().__init__(fn, target)
        self.lanes = lanes
        self.is_inside = False
        self.streams = False
        self.mask = ""
        self.reads_apart = False
        self.writes_apart = False
        self._divisors: dict[str, Divisor] = {}
        self._most_apart = _MOST_APART_OF_TWO if target.has("avx512vl") else _MOST_APART

    @contextmanager
    def with_lanes(self, lanes: int) -> Iterator[None]:
        """A region in which vectors have another length, 0 for scalars."""
        before, self.lanes = self.lanes, lanes
        try:
            yield
        finally:
            self.lanes = before

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """A region in which `streams` holds; a fence is needed before other threads read."""
        self.streams = True
        try:
            yield
        finally:
            self.streams = False

    @contextmanager
    def first_lanes(self, count: Value | int) -> Iterator[None]:
        """A region in which only `count` lanes are loaded and stored; the others are undefined."""
        self.mask = self._first_lanes(count)
        try:
            yield
        finally:
            self.mask = ""

    def _first_lanes(self, count: Value | int) -> str:
        """Return the mask of the first `count` lanes; any number that is large is all of them."""
        if isinstance(count, int):
            bits = ("true" if lane < count else "false" for lane in range(self.lanes))
            return f"<{', '.join(f'i1 {bit}' for bit in bits)}>"
        kind = self.vector_type("i64")
        numbers = f"<{', '.join(f'i64 {lane}' for lane in range(self.lanes))}>"
        first = self.fn.value(f"insertelement {kind} poison, i64 {count.text}, i64 0")
        limit = self._picked(kind, first, "poison", [0] * self.lanes)
        return self.fn.value(f"icmp slt {kind} {numbers}, {limit}")

    # ---- vectors of values

    def vector_type(self, element: str) -> str:
        return vector_of(element, self.lanes)

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

    def lanes_of(self, *args: Value) -> int:
        for x in args:
            if isinstance(x, VARYING):
                return self.lanes
        return 0

    def operand(self, x: Value, lanes: int) -> str:
        return self.vector(x) if lanes else x.text

    def intrinsic(self, name: str, *args: Value) -> Value:
        if name == "fma" and self.is_avx2:
            args = self._constants_in_memory(args)
        return super().intrinsic(name, *args)

    def operation(self, dtype: DType, op: str, *args: Value) -> Value:
        if op.startswith(_WITH_MEMORY_OPERANDS) and self.is_avx2:
            args = self._constants_in_memory(args)
        return super().operation(dtype, op, *args)

    def _constants_in_memory(self, args: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([self._in_memory(x) for x in args]) if self.lanes_of(*args) else args

    def _in_memory(self, x: Value) -> Value:
        """Return a constant, such as a coefficient, as an operand in memory.

        With 16 registers, LLVM broadcasts each coefficient of a long polynomial in every iteration;
        AVX2 multiplies by whole vectors in memory without another instruction. GELU: 0.81 of the
        time.
        """
        if isinstance(x, VARYING) or x.text.startswith(_IN_FUNCTION) or x.dtype not in (F32, F64):
            return x
        kind = self.kind(x.dtype)
        place = self.fn.vector_constant(kind, self.vector(x))
        return Lanes(x.dtype, self.fn.value(f"load {kind}, ptr {place}"))

    # ---- divisions by a number that all lanes share

    def expect_divisions(self, x: Value) -> None:
        """Divide lanes by the float `x` through its reciprocal from here on."""
        if self.lanes and self.has_fma and not x.dtype.is_complex:
            self._divisors[x.text] = divisor_of(self, self._wide(x))

    def fdiv(self, x: Value, y: Value) -> Value:
        divisor = None
        if isinstance(x, Lanes) and self.reciprocal_of(y) is None:
            divisor = self._divisors.get(y.text) or self._constant_divisor(y)
        if divisor is None:
            return super().fdiv(x, y)
        value = quotient(self, self._wide(x), divisor)
        if value.dtype is x.dtype:
            return value
        return narrow_float.encode(self, value, x.dtype, plain_nan=self.keeps_nan)

    def _constant_divisor(self, x: Value) -> Divisor | None:
        """Return a constant as a divisor; None if `x` is not constant or very large."""
        number = self.divisor_number(x)
        return Divisor(None, x, self.const(x.dtype, 1 / number)) if number else None

    def differs(self, x: Value, y: Value) -> Value:
        """Return where `x` and `y` are ordered and not equal."""
        return self.operation(PRED, "fcmp one", x, y)

    # ---- divisions of integers, which no processor has for vectors

    def idiv(self, x: Value, y: Value) -> Value:
        found = self._integer_quotient(x, y)
        return super().idiv(x, y) if found is None else found

    def irem(self, x: Value, y: Value) -> Value:
        found = self._integer_quotient(x, y)
        return super().irem(x, y) if found is None else self.isub(x, self.imul(found, y))

    def _integer_quotient(self, x: Value, y: Value) -> Value | None:
        """Return x / y by way of floats that hold both exactly, None if LLVM knows better.

        A quotient that is no integer is less than the next one by 1 / x of itself or more, many
        times what roundings change. One divisor for all lanes has a reciprocal a little too large,
        so that products which are integers are not below these.
        """
        dtype, varies = x.dtype, isinstance(y, VARYING)
        if not (varies or isinstance(x, VARYING)) or dtype.bits not in (8, 16, 32):
            return None
        if not self.target.has("avx2") or self.integer_constant(y) is not None:
            return None
        wide, slack = (F64, 2.0**-49) if dtype.bits == 32 else (F32, 2.0**-21)
        above, below = self.convert(x, wide), self.convert(y, wide)
        if varies:
            found = self.fdiv(above, below)
        else:
            inverse = self.fdiv(self.const(wide, 1.0), below)
            found = self.fmul(above, self.fmul(inverse, self.const(wide, 1 + slack)))
        return self.cast(self._cut(found, dtype if dtype.bits == 32 else S32), dtype)

    # ---- conversions

    def scaled(self, x: Value, exponent: Value, n: Value, is_zero: Value | None = None) -> Value:
        is_varying = isinstance(x, VARYING) or isinstance(exponent, VARYING)
        if not is_varying or self.lanes * x.dtype.bits != _SCALED_BITS:
            return super().scaled(x, exponent, n, is_zero)
        # LLVM's own instruction takes integers, which it converts to floats first.
        kind, letter, mask = self.kind(x.dtype), "s" if x.dtype is F32 else "d", f"i{self.lanes}"
        symbol = f"@llvm.x86.avx512.mask.scalef.p{letter}.{_SCALED_BITS}"
        kept = "-1"
        if is_zero is not None:
            scales = self.not_(is_zero)
            kept = self.fn.value(f"bitcast {self.kind(PRED)} {self.vector(scales)} to {mask}")
        operands = (kind, self.vector(x)), (kind, self.vector(n)), (kind, "zeroinitializer")
        return Lanes(x.dtype, self.fn.call(kind, symbol, *operands, (mask, kept), ("i32", "4")))

    # ---- calls

    def libm(self, name: str, *args: Value) -> Value:
        if any(isinstance(x, VARYING) for x in args):
            raise NeedsScalars(name)
        return super().libm(name, *args)

    def folded(self, name: str, x: Value) -> Value:
        """Return all lanes of `x` combined by the reducer of that opcode, in any order."""
        short = {"multiply": "mul", "maximum": "fmaximum", "minimum": "fminimum"}.get(name, name)
        dtype, flags = x.dtype, ""
        if dtype.is_pred and name == "add":
            short = "or"
        elif dtype.is_float:
            short = {"add": "fadd", "mul": "fmul"}.get(short, short)
        elif name in ("maximum", "minimum"):
            short = ("s" if dtype.is_signed else "u") + name[:3]
        if short in ("fmaximum", "fminimum"):
            return self._extreme(short.removesuffix("imum"), x)
        kind, vector = REPRESENTATIONS[dtype].register, self.kind(dtype)
        symbol = f"@llvm.vector.reduce.{short}.{self._suffix(dtype)}"
        operands = [(vector, self.vector(x))]
        if short in ("fadd", "fmul"):
            operands.insert(0, (kind, "-0.0" if short == "fadd" else "1.0"))
            flags = "reassoc "
        return Value(dtype, self.fn.call(kind, symbol, *operands, flags=flags))

    def any_lane(self, pred: Value) -> Value:
        """Return whether `pred` holds in any lane."""
        bits = self.fn.value(f"bitcast {self.kind(PRED)} {self.vector(pred)} to i{self.lanes}")
        return Value(PRED, self.fn.value(f"icmp ne i{self.lanes} {bits}, 0"))

    def _extreme(self, short: str, x: Value) -> Value:
        """Return the `fmax` or `fmin` of all lanes, NaN if one is.

        NaN is checked separately: LLVM's reduction that propagates NaN takes three times as long.
        """
        dtype, vector = x.dtype, self.kind(x.dtype)
        kind = REPRESENTATIONS[dtype].register
        symbol = f"@llvm.vector.reduce.{short}.{self._suffix(dtype)}"
        operand = vector, self.vector(x)
        result = self.fn.call(kind, symbol, operand, flags="nnan nsz reassoc ")
        return self.select(
            self.any_lane(self.is_nan(x)), self.const(dtype, float("nan")), Value(dtype, result)
        )

    def _suffix(self, dtype: DType) -> str:
        """Return the suffix of intrinsics for lanes of `dtype`."""
        return suffix_of(REPRESENTATIONS[dtype].register, self.lanes)

    # ---- memory

    def load_number(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        """Load one number per lane, of neighbours or of elements that are a small stride apart.

        Types with fewer bits than their memory (`pred`, `s4`) are truncated after the load.
        """
        if isinstance(pointer, LaneSlot):
            return self._assigned(dtype, f"load {self.kind(dtype)}, ptr {pointer.text}", self.lanes)
        if isinstance(pointer, LaneSlots):
            at = self._slot(pointer, dtype, index)
            return self._assigned(dtype, f"load {self.kind(dtype)}, ptr {at}", self.lanes)
        if not isinstance(index, VARYING):
            return super().load_number(pointer, dtype, index)
        r = REPRESENTATIONS[dtype]
        memory = self.vector_type(r.memory)
        is_apart = isinstance(index, LaneIndex) and 1 < index.stride <= self._most_apart
        at = self._neighbours(pointer, dtype, index) if not is_apart or self.mask else ""
        if self.mask:
            loaded = self._load_part(memory, at, r)
        elif isinstance(index, LaneIndex) and is_apart:
            loaded = self._load_apart(pointer, dtype, index)
        else:
            loaded = self.fn.value(f"load {memory}, ptr {at}, align {r.bytes}")
        if not r.is_part:
            return Lanes(dtype, loaded)
        if dtype.is_pred:
            return self._assigned(dtype, f"icmp ne {memory} {loaded}, zeroinitializer", self.lanes)
        return self._assigned(dtype, f"trunc {memory} {loaded} to {self.kind(dtype)}", self.lanes)

    def _load_apart(self, pointer: Value, dtype: DType, index: LaneIndex) -> str:
        """Load elements that are `stride` apart, by `stride` vectors up to the last element."""
        r = REPRESENTATIONS[dtype]
        kind, lanes, stride = self.vector_type(r.memory), self.lanes, index.stride
        first = self.address(pointer, dtype, index)
        last = (lanes - 1) * (stride - 1)
        found, picked = "poison", list(range(lanes))
        for number in range(stride):
            begin = last if number == stride - 1 else number * lanes
            at = self.fn.value(f"getelementptr inbounds {r.memory}, ptr {first}, i64 {begin}")
            part = self.fn.value(f"load {kind}, ptr {at}, align {r.bytes}")
            for lane in range(lanes):
                place = lane * stride - begin
                if 0 <= place < lanes:
                    picked[lane] = lanes + place
            found = self._picked(kind, found, part, picked)
            picked = list(range(lanes))
        return found

    def load_each(self, pointer: Value, dtype: DType, index: LaneIndex | Lanes) -> Value:
        """Return the elements at `index`, however far apart, loaded one by one."""
        places: Sequence[Value | int]
        if isinstance(index, LaneIndex):
            pointer = self.moved(pointer, dtype, index)
            places = [lane * index.stride for lane in range(self.lanes)]
        else:
            places = self._each(index)
        elements = [super(LaneBuilder, self).load(pointer, dtype, place) for place in places]
        if not dtype.is_complex:
            return self._gathered(elements)
        parts = (self._gathered([part(x) for x in elements]) for part in (self.real, self.imag))
        return self.complex(*parts)

    def _each(self, offsets: Lanes) -> list[Value]:
        """Return the number in each lane, none negative, as s64."""
        kind, places = self.kind(offsets.dtype), list[Value]()
        for lane in range(self.lanes):
            place = self.fn.value(f"extractelement {kind} {offsets.text}, i64 {lane}")
            if offsets.dtype is not S64:
                place = self.fn.value(f"zext i{offsets.dtype.bits} {place} to i64")
            places.append(Value(S64, place))
        return places

    def _gathered(self, elements: Sequence[Value]) -> Lanes:
        """Return one value per lane."""
        dtype, text = elements[0].dtype, "poison"
        kind, element = self.kind(dtype), REPRESENTATIONS[dtype].register
        for lane, x in enumerate(elements):
            text = self.fn.value(f"insertelement {kind} {text}, {element} {x.text}, i64 {lane}")
        return Lanes(dtype, text)

    def store_number(self, pointer: Value, index: Value | int, value: Value) -> None:
        """Store one number per lane at neighbouring places; refuse lanes that go to one place."""
        if isinstance(pointer, LaneSlot):
            text = self.vector(value)
            self.fn.line(f"store {self.kind(value.dtype)} {text}, ptr {pointer.text}")
            return
        if isinstance(pointer, LaneSlots):
            at, text = self._slot(pointer, value.dtype, index), self.vector(value)
            self.fn.line(f"store {self.kind(value.dtype)} {text}, ptr {at}")
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
        if self.mask:
            self._store_part(memory, text, at, r)
            return
        if not self.streams:
            text = self.stored(memory, text)
            self.fn.line(f"store {memory} {text}, ptr {at}, align {r.bytes}")
            return
        self.fn.declare("!2 = !{i32 1}")
        whole = self.lanes * r.bytes
        self.fn.line(f"store {memory} {text}, ptr {at}, align {whole}, !nontemporal !2")

    def _load_part(self, memory: str, at: str, r: Representation) -> str:
        name = f"@llvm.masked.load.{suffix_of(r.memory, self.lanes)}.p0"
        others = (memory, "zeroinitializer")
        place = ("ptr", at), ("i32", str(r.bytes)), (self.vector_type("i1"), self.mask)
        return self.fn.call(memory, name, *place, others)

    def _store_part(self, memory: str, text: str, at: str, r: Representation) -> None:
        name = f"@llvm.masked.store.{suffix_of(r.memory, self.lanes)}.p0"
        place = ("ptr", at), ("i32", str(r.bytes)), (self.vector_type("i1"), self.mask)
        self.fn.call("void", name, (memory, text), *place)

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
        """Load one value per lane; complex ones as a vector of both parts, which is then split."""
        if (
            isinstance(index, LaneIndex)
            and (self.reads_apart and not self.mask)
            and not 0 < index.stride <= self._most_apart
        ):
            return self.load_each(pointer, dtype, index)
        if not dtype.is_complex or not isinstance(index, VARYING):
            return super().load(pointer, dtype, index)
        if self.mask:
            raise NeedsScalars("complex numbers in some of the lanes")
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

    def store_each(self, pointer: Value, index: LaneIndex, value: Value) -> None:
        """Store the lanes of `value` at `index`, however far apart, one by one."""
        kind, text = self.kind(value.dtype), self.vector(value)
        first = self.moved(pointer, value.dtype, index)
        for lane in range(self.lanes):
            one = self.fn.value(f"extractelement {kind} {text}, i64 {lane}")
            super().store(first, lane * index.stride, Value(value.dtype, one))

    def store(self, pointer: Value, index: Value | int, value: Value) -> None:
        if self.writes_apart and isinstance(index, LaneIndex) and index.stride > 1:
            if value.dtype.is_complex or self.mask:
                raise NeedsScalars("parts of values that are apart")
            self.store_each(pointer, index, value)
            return
        if not value.dtype.is_complex or not isinstance(index, VARYING):
            super().store(pointer, index, value)
            return
        if self.mask:
            raise NeedsScalars("complex numbers in some of the lanes")
        r = REPRESENTATIONS[component_of(value.dtype)]
        half, lanes = self.vector_type(r.memory), self.lanes
        places = [lane + part * lanes for lane in range(lanes) for part in (0, 1)]
        real, imag = (self.vector(x) for x in (self.real(value), self.imag(value)))
        mixed = self._picked(half, real, imag, places)
        at = self._neighbours(pointer, value.dtype, index)
        self.fn.line(f"store <{2 * lanes} x {r.memory}> {mixed}, ptr {at}, align {r.bytes}")

    def _picked(self, kind: str, first: str, second: str, places: Iterable[int]) -> str:
        """Return a shuffle of two vectors; `places` count through both."""
        mask = [f"i32 {place}" for place in places]
        order = f"<{len(mask)} x i32> <{', '.join(mask)}>"
        return self.fn.value(f"shufflevector {kind} {first}, {kind} {second}, {order}")

    def _neighbours(self, pointer: Value, dtype: DType, index: Value) -> str:
        """Return the address of lane 0 of lanes that are contiguous in memory."""
        if not isinstance(index, LaneIndex) or index.stride != 1:
            raise NeedsScalars("elements that are not contiguous")
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

    def lane_slots(self, dtype: DType, count: int) -> LaneSlots:
        """Return stack memory for `count` vectors, one after another."""
        if dtype.is_complex:
            raise NeedsScalars("variables that are complex")
        return LaneSlots(dtype, self.fn.allocate(self.kind(dtype), count))

    def _slot(self, slots: LaneSlots, dtype: DType, index: Value | int) -> str:
        """Return the address of a vector in stack memory."""
        position = index if isinstance(index, int) else index.text
        return self.fn.value(
            f"getelementptr inbounds {self.kind(dtype)}, ptr {slots.text}, i64 {position}"
        )
