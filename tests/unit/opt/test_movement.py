"""Passes that move data keep every bit, in random modules full of moves and odd layouts."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import hloc
from hloc.dtypes import BF16, F32
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.ops.builder import Builder
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.shapes import ArrayShape, Layout
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.opt.random_modules import RandomModule
from tests.unit.opt.test_rules import same_bits

PASSES = (
    "broadcast-canonicalizer",
    "computation-deduplicator",
    "convert-mover",
    "layout-assignment",
    "reduce-decomposer",
    "reshape-decomposer",
    "reshape-mover",
    "simplify-fp-conversions",
    "slice-sinker",
)


class MovingModule(RandomModule):
    """Grows matrices that are moved, converted, cut, multiplied and laid out in both orders."""

    def moving(self, steps: int) -> Module:
        """Add `steps` matrices and return the module."""
        self.values = [
            self.b.parameter(10 + n, ArrayShape(dtype, dims))
            for n, (dtype, dims) in enumerate(((F32, (3, 4)), (F32, (4, 4)), (BF16, (4, 3))))
        ]
        grow = self.turned, self.work, self.work, self.cast, self.product, self.halves, self.maxima
        while len(self.values) < steps:
            made = grow[int(self.random.integers(len(grow)))]()
            if self.random.random() < 0.25:
                self.entry.set_shape(made, made.array.with_layout(Layout((0, 1))))
            self.values.append(made)
        self.entry.set_root(self.b.tuple(self.values[-4:]))
        self.module.set_entry(self.entry)
        self.module.log.recording = True
        return self.module

    def recent(self) -> Instruction:
        found = self.values[-5:]
        return found[int(self.random.integers(len(found)))]

    def turned(self) -> Instruction:
        x = self.recent()
        if self.random.random() < 0.3:
            x = self.cast()
        if self.random.random() < 0.3:
            return self.b.reshape(x, x.array.dims[::-1])
        return self.b.transpose(x, (1, 0))

    def work(self) -> Instruction:
        x = self.recent()
        kind = x.array.text_without_layout
        alike = [v for v in self.values if v.array.text_without_layout == kind]
        y = alike[int(self.random.integers(len(alike)))]
        return self.b.add(x, y) if self.random.random() < 0.6 else self.b.negate(x)

    def cast(self) -> Instruction:
        x = self.recent()
        other, own = (BF16, F32) if x.array.dtype is F32 else (F32, BF16)
        y = self.b.convert(x, other)
        return self.b.convert(y, own) if self.random.random() < 0.4 else y

    def product(self) -> Instruction:
        x = self.recent()
        dims = {"lhs_contracting_dims": (0,), "rhs_contracting_dims": (0,)}
        return self.b.dot(x, x, **dims)

    def halves(self) -> Instruction:
        """Add both parts of two arrays, and put the sums together."""
        x = self.recent()
        rows, columns = x.array.dims
        y = self.b.negate(x)
        sums = [
            self.b.add(self.b.slice(x, (0, a), (rows, z)), self.b.slice(y, (0, a), (rows, z)))
            for a, z in ((0, 2), (2, columns))
        ]
        return self.b.concatenate(sums, 1)

    def maxima(self) -> Instruction:
        """Return the maximum over two copies of a transposed matrix of f32."""
        x = self.b.convert(self.recent(), F32)
        larger = self.module.add_computation(f"larger.{len(self.values)}")
        b, scalar = Builder(larger), ArrayShape(x.array.dtype)
        larger.set_root(b.maximum(b.parameter(0, scalar), b.parameter(1, scalar)))
        wide = self.b.broadcast(x, (*x.array.dims[::-1], 2), (1, 0))
        return self.b.reduce([wide], [self.splat(F32, ())], (2,), larger)


@pytest.mark.parametrize("name", PASSES)
def test_moves_keep_values(name: str) -> None:
    fired = 0

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        nonlocal fired
        module = MovingModule(seed).moving(18)
        verify(module)
        copy = clone_module(module)
        context = PassContext()
        Pipeline.parse(f"{name},dce", check_changed=True).run(copy, context)
        verify(copy)
        fired += context.fired[name]
        inputs = inputs_for(module, seed=seed % 7)
        pairs = zip(hloc.evaluate(copy, *inputs), hloc.evaluate(module, *inputs), strict=True)
        for got, want in pairs:
            assert same_bits(got, want), f"{got} instead of {want}\n{module}\n{copy}"

    run()
    assert fired, f"{name} never did anything"


@pytest.mark.parametrize("seed", range(6))
def test_compiled_code_writes_the_layouts_that_were_assigned(seed: int) -> None:
    module = MovingModule(seed).moving(14)
    inputs = inputs_for(module, special=False)
    plain = hloc.compile(module, passes="layout-assignment,fusion,dce")(*inputs)
    for number, (got, want) in enumerate(zip(plain, hloc.evaluate(module, *inputs), strict=True)):
        assert_close(got, want, f"result {number}")


COLLECTIVES = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[4] parameter(0)
  g = f32[4] all-gather(x), dimensions={0}, replica_groups={{0}}
  a = f32[4] all-reduce(g), replica_groups={}, to_apply=add
  t = f32[4] all-to-all(a), dimensions={0}, replica_groups={{0}}
  s = f32[4] reduce-scatter(t), dimensions={0}, replica_groups={{0}}, to_apply=add
  ROOT p = f32[4] collective-permute(s), source_target_pairs={{0,0}}
}
"""


def test_collectives_of_one_participant_vanish() -> None:
    module = hloc.parse(COLLECTIVES)
    Pipeline.parse("all-reduce-simplifier,dce").run(module)
    assert [inst.opcode.name for inst in module.entry.instructions] == ["parameter"]
    assert module.entry.root is module.entry.parameters[0]


def test_collectives_of_two_stay() -> None:
    two = COLLECTIVES.replace("{{0}}", "{{0,1}}").replace("={}", "={{0,1}}")
    two = two.replace("g = f32[4] all-gather", "g = f32[8] all-gather")
    two = two.replace("a = f32[4]", "a = f32[8]").replace("t = f32[4]", "t = f32[8]")
    module = hloc.parse(two.replace("HloModule m", "HloModule m, replica_count=2", 1))
    assert not Pipeline.parse("all-reduce-simplifier").run(module)
    assert len(module.entry.instructions) == 6
