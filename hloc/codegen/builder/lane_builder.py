"""An `LlvmBuilder` whose values may be vectors, one element per lane.

A load at indices that differ between lanes returns `Lanes`, and so does every operation on `Lanes`;
values that all lanes share stay scalar until they meet a vector. Code written for scalars, such as
the functions of `math`, therefore produces vectors unchanged. Operations without a vector form
raise `NeedsScalars`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest

from hloc.codegen.builder.lane_arithmetic import LaneArithmetic
from hloc.codegen.builder.lane_gather import gather
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
)
from hloc.codegen.llvm.target import Target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import S64, DType, complex_of, component_of

_MOST_APART = 4
"""Largest stride between lanes for which whole vectors are loaded and shuffled."""
_MOST_APART_OF_TWO = 8
"""The same where one instruction picks elements of two vectors in any order."""


class LaneBuilder(LaneArithmetic):
    """Writes vectors of `lanes` elements where an operand is one, else what `LlvmBuilder` does.

    Attributes:
        is_inside: stack slots for one value are requested by code whose values may be lanes.
        streams: stores of lanes are aligned and non-temporal.
        mask: of the lanes that are in memory, as LLVM text; "" for all.
        reads_apart: elements with a large stride are loaded one by one; otherwise that is refused,
            since a loop that does little else should run in another order.
        writes_apart: so are elements stored.
        positions: the type in which positions are computed lane by lane, where a dimension that
            runs along the lanes is divided; None if that is refused.
    """

    def __init__(self, fn: FunctionWriter, target: Target, lanes: int = 0) -> None:
        super().__init__(fn, target, lanes)
        self.is_inside = False
        self.streams = False
        self.mask = ""
        self.reads_apart = False
        self.writes_apart = False
        self.positions: DType | None = None
        self._most_apart = _MOST_APART_OF_TWO if target.has("avx512vl") else _MOST_APART

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
        """Return the elements at `index`, however far apart: loaded one by one, or gathered."""
        if isinstance(index, Lanes) and self._gathers(dtype):
            return gather(self, pointer, dtype, index, self.mask)
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

    def _gathers(self, dtype: DType) -> bool:
        """True if an instruction that gathers is faster than loads of single elements.

        It is on processors of Intel since Sapphire Rapids, which have arithmetic of f16: 0.52 of
        the time for trees of decisions, 0.59 for interpolation, 0.65 for 10,000 elements of a
        vector. It takes longer on AMD's, and on older ones of Intel, whose microcode keeps gathers
        from leaking data (Intel, "Gather Data Sampling").
        """
        part = REPRESENTATIONS[component_of(dtype)]
        return self.target.has("avx512fp16") and part.bytes >= 4 and not part.is_part

    def _each(self, offsets: Lanes) -> list[Value]:
        """Return the number in each lane, none negative, as s64."""
        kind, places = self.kind(offsets.dtype), list[Value]()
        for lane in range(self.lanes):
            place = self.fn.value(f"extractelement {kind} {offsets.text}, i64 {lane}")
            if offsets.dtype is not S64:
                place = self.fn.value(f"zext i{offsets.dtype.bits} {place} to i64")
            places.append(Value(S64, place))
        return places

    def position(self, x: Value) -> Value:
        """Return positions in the type in which they are computed, whether or not they vary."""
        assert self.positions is not None
        return self.convert(self.as_lanes(x) if isinstance(x, LaneIndex) else x, self.positions)

    def _in_memory_only(self, index: Lanes) -> Lanes:
        """Return 0 instead of what is computed in lanes that are not in memory."""
        if not self.mask:
            return index
        kind, masks = self.kind(index.dtype), self.vector_type("i1")
        text = f"select {masks} {self.mask}, {kind} {index.text}, {kind} zeroinitializer"
        return Lanes(index.dtype, self.fn.value(text))

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
        memory, text = self.vector_type(r.memory), self._whole_bytes(value, r)
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
        if isinstance(index, Lanes) and self.positions is not None:
            return self.load_each(pointer, dtype, self._in_memory_only(index))
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

    def store_rows(self, pointer: Value, index: LaneIndex, values: Sequence[Value]) -> None:
        """Store the values of a row in each lane; the rows are contiguous, the first at `index`.

        Raises:
            NeedsScalars: the values are complex.
        """
        dtype, count = values[0].dtype, len(values)
        if dtype.is_complex:
            raise NeedsScalars("rows of complex numbers")
        assert index.stride == count
        r = REPRESENTATIONS[dtype]
        parts, size = [self._whole_bytes(value, r) for value in values], self.lanes
        while len(parts) > 1:
            pairs = zip_longest(parts[::2], parts[1::2], fillvalue="poison")
            kind = f"<{size} x {r.memory}>"
            parts, size = [self._picked(kind, *pair, range(2 * size)) for pair in pairs], 2 * size
        order = [lane + self.lanes * x for lane in range(self.lanes) for x in range(count)]
        mixed = self._picked(f"<{size} x {r.memory}>", parts[0], "poison", order)
        at = self.address(pointer, dtype, index)
        self.fn.line(f"store <{len(order)} x {r.memory}> {mixed}, ptr {at}, align {r.bytes}")

    def _whole_bytes(self, value: Value, r: Representation) -> str:
        """Return lanes of `value` as they are in memory: a pred is a byte."""
        text, memory = self.vector(value), self.vector_type(r.memory)
        if not r.is_part:
            return text
        return self.fn.value(f"zext {self.kind(value.dtype)} {text} to {memory}")

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
