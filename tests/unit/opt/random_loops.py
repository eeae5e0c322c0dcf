"""Random modules with a loop: state that is dead, constant, doubled, swapped, nested, counted."""

from collections.abc import Sequence

import numpy as np

from hloc.dtypes import F32, S8, S32, U8
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, Shape, TupleShape

ARRAY = ArrayShape(F32, (3,))
COUNTERS = (S32, S8, U8)
KINDS = ("varying", "invariant", "constant", "double", "swapped", "dead", "counter", "self-fed")


class RandomLoop:
    """Grows a module with one loop, perhaps with others in it; all is decided by `seed`."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.module = Module("random")

    def module_with_loop(self) -> Module:
        """Return the module; it takes three `f32[3]` and returns parts of the loop's state."""
        entry = self.module.add_computation("entry")
        b = Builder(entry)
        arrays = [b.parameter(number, ARRAY) for number in range(3)]
        loop = self.loop(b, arrays, depth=0)
        values = self.flat(b, loop)
        kept = [v for v in values if self.random.random() < 0.5] or values[:1]
        if self.random.random() < 0.1:
            kept.append(loop)
        entry.set_root(b.tuple(kept))
        self.module.set_entry(entry)
        self.module.log.recording = True
        return self.module

    def pick(self, values: Sequence[Instruction]) -> Instruction:
        return values[int(self.random.integers(len(values)))]

    def flat(self, b: Builder, value: Instruction) -> list[Instruction]:
        if not isinstance(value.shape, TupleShape):
            return [value]
        parts = [b.get_tuple_element(value, i) for i in range(len(value.shape.elements))]
        return [leaf for part in parts for leaf in self.flat(b, part)]

    # ---- the loop

    def loop(self, b: Builder, arrays: Sequence[Instruction], depth: int) -> Instruction:
        """Add a loop whose state starts with a counter and `f32[3]` arrays."""
        dtype = COUNTERS[self.random.integers(len(COUNTERS))]
        trips = int(self.random.integers(0, 6))
        down = self.random.random() < 0.3
        start = 100 if down else int(self.random.integers(0, 3))
        step = int(self.random.integers(1, 4))
        limit = start + (-step * trips if down else step * trips)
        direction = ("GT" if down else "LT") if self.random.random() < 0.7 else "NE"
        kinds = [KINDS[self.random.integers(len(KINDS))] for _ in range(self.random.integers(1, 7))]
        counter = b.constant(start, dtype)
        init = [counter]
        for kind in kinds:
            init.append(self.init(b, kind, arrays, counter, init))
        nested = self.random.random() < 0.25 and len(init) > 3
        state = b.tuple([*init[:2], b.tuple(init[2:])] if nested else init)
        condition = self.module.add_computation("condition")
        c = Builder(condition)
        number = self.flat(c, c.parameter(0, state.shape))[0]
        condition.set_root(c.compare(number, c.constant(limit, dtype), direction))
        body = self.body(state.shape, kinds, nested, -step if down else step, depth)
        return b.instruction("while", (state,), called=(condition, body))

    def init(
        self,
        b: Builder,
        kind: str,
        arrays: Sequence[Instruction],
        counter: Instruction,
        before: list[Instruction],
    ) -> Instruction:
        if kind == "counter":
            return counter if self.random.random() < 0.7 else b.constant(7, counter.array.dtype)
        if kind == "constant" or self.random.random() < 0.2:
            return b.constant(np.array([1, 2, 0.5], np.float32))
        same = [v for v in before if v.shape == ARRAY]
        return self.pick(same if same and kind in ("double", "swapped") else arrays)

    def body(
        self, shape: Shape, kinds: Sequence[str], nested: bool, step: int, depth: int
    ) -> Computation:
        body = self.module.add_computation("body")
        b = Builder(body)
        parameter = b.parameter(0, shape)
        values = self.flat(b, parameter)
        counter, *parts = values
        amount = b.constant(abs(step), counter.array.dtype)
        after = [b.add(counter, amount) if step > 0 else b.subtract(counter, amount)]
        arrays = [v for v in parts if v.shape == ARRAY] or [
            b.constant(np.array([3, 1, 2], np.float32))
        ]
        steady = [v for v, k in zip(parts, kinds, strict=True) if k in ("invariant", "constant")]
        arrays.append(self.grown(b, steady or arrays))
        arrays.append(b.broadcast(b.convert(self.checked(b, counter), F32), (3,)))
        if depth < 2 and self.random.random() < 0.25:
            inner = self.flat(b, self.loop(b, arrays, depth + 1))
            arrays += [v for v in inner if v.shape == ARRAY]
        if self.random.random() < 0.3:
            arrays.append(self.conditional(b, counter, arrays))
        doubled = self.grown(b, arrays)
        swapped = [v for v, k in zip(parts, kinds, strict=True) if k == "swapped"]
        for value, kind in zip(parts, kinds, strict=True):
            if kind in ("invariant", "constant"):
                after.append(value)
            elif kind == "counter":
                after.append(b.add(value, amount) if step > 0 else b.subtract(value, amount))
            elif kind == "swapped":
                after.append(swapped[swapped.index(value) - 1])
            elif kind == "self-fed":
                after.append(self.grown(b, [value]))
            else:
                after.append(doubled if kind == "double" else self.grown(b, arrays))
        if nested:
            after = [*after[:2], b.tuple(after[2:])]
        if self.random.random() < 0.2:
            after[0] = b.get_tuple_element(b.tuple([after[0], parameter]), 0)
        body.set_root(b.tuple(after))
        return body

    def checked(self, b: Builder, counter: Instruction) -> Instruction:
        """Add what JAX makes of `x[i]`: a negative index counts from the end."""
        zero, size = (b.constant(n, counter.array.dtype) for n in (0, 5))
        direction = str(self.random.choice(("LT", "LE", "GE", "EQ", "NE", "GT")))
        negative = b.compare(counter, zero, direction)
        return b.select(negative, b.add(counter, size), counter)

    def grown(self, b: Builder, arrays: Sequence[Instruction]) -> Instruction:
        """Add a little arithmetic."""
        found = self.pick(arrays)
        for _ in range(self.random.integers(1, 3)):
            half = b.broadcast(b.constant(np.float32(0.5)), (3,))
            other = half if self.random.random() < 0.5 else self.pick(arrays)
            name = ("add", "multiply", "maximum", "subtract")[self.random.integers(4)]
            found = b.instruction(name, (found, other))
            if self.random.random() < 0.3:
                found = b.instruction("tanh", (found,))
        return found

    # ---- branches

    def conditional(
        self, b: Builder, counter: Instruction, arrays: Sequence[Instruction]
    ) -> Instruction:
        """Add a conditional over parts of `arrays`; some results are unused, equal or handed on."""
        count = int(self.random.integers(1, 4))
        by_pred = count == 2 and self.random.random() < 0.7
        predicate = b.convert(counter, S32)
        if by_pred:
            predicate = b.compare(counter, b.constant(3, counter.array.dtype), "LT")
        if self.random.random() < 0.15:
            predicate = b.constant(True) if by_pred else b.constant(1, S32)
        results = int(self.random.integers(1, 4))
        shared = [self.pick(arrays) for _ in range(2)]
        operands, called = [predicate], []
        for _ in range(count):
            operands.append(b.tuple([*shared, self.pick(arrays)]))
            called.append(self.branch(operands[-1].shape, results))
        made = b.instruction("conditional", operands, called=called)
        return b.get_tuple_element(made, int(self.random.integers(results)))

    def branch(self, shape: Shape, results: int) -> Computation:
        branch = self.module.add_computation("branch")
        b = Builder(branch)
        values = self.flat(b, b.parameter(0, shape))
        values.append(b.constant(np.array([4, 5, 6], np.float32)))
        if self.random.random() < 0.5:
            values.append(self.grown(b, values))
        branch.set_root(b.tuple([self.pick(values) for _ in range(results)]))
        return branch
