"""The element generator: the value of an instruction at an index, with everything fused into it.

Rules (`RULES`, `LEAF_RULES`) are coroutines that request elements of other instructions;
`ElementGenerator` runs them on a stack of its own, since fusions are hundreds of instructions deep,
and reuses every value within its region. Called computations (reducers, comparators) are inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from hloc.codegen.builder.index import Index, IndexMath
from hloc.codegen.builder.ir_array import IrArray, array_in_memory
from hloc.codegen.builder.loops import Body
from hloc.codegen.builder.values import VARYING, NeedsScalars, Value
from hloc.errors import UnsupportedError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, ShapeIndex, leaves, shape_at


class Frame:
    """One computation that is being emitted, with the values of its parameters.

    Attributes:
        sources: the source of an instruction: a value, the arrays of its leaves, or an
            instruction of another frame.
    """

    __slots__ = ("sources",)

    def __init__(self, sources: Mapping[Instruction, Source]) -> None:
        self.sources = sources


Source: TypeAlias = "Value | Sequence[IrArray] | tuple[Frame, Instruction]"
Request: TypeAlias = tuple[Frame, Instruction, ShapeIndex, Index]
"""Element `index` of leaf `path` of an instruction."""
Rule: TypeAlias = Generator[Request, Value, Value]
RuleFunction: TypeAlias = Callable[["ElementGenerator", Frame, Instruction, Index], Rule]
LeafRuleFunction: TypeAlias = Callable[
    ["ElementGenerator", Frame, Instruction, ShapeIndex, Index], Rule
]
_F = TypeVar("_F")

RULES: dict[str, RuleFunction] = {}
"""Emits one element of an array, by opcode; elementwise opcodes need no entry."""

LEAF_RULES: dict[str, LeafRuleFunction] = {}
"""Emits one element of a leaf, for the opcodes whose result may be a tuple."""

MAX_NESTING = 64
"""Depth of computations called from computations inside one kernel."""


def rule(*names: str) -> Callable[[RuleFunction], RuleFunction]:
    """Register the rule of opcodes `names`."""
    return partial(_register, RULES, names)


def leaf_rule(*names: str) -> Callable[[LeafRuleFunction], LeafRuleFunction]:
    """Register the rule of opcodes `names`, which emits elements of a given leaf."""
    return partial(_register, LEAF_RULES, names)


def _register(table: dict[str, _F], names: Sequence[str], function: _F) -> _F:
    table.update(dict.fromkeys(names, function))
    return function


def has_rule(inst: Instruction) -> bool:
    """True if elements of `inst` can be computed, or loaded if it is a parameter."""
    name = inst.opcode.name
    is_elementwise = inst.opcode.elemental is not None
    return is_elementwise or name in RULES or name in LEAF_RULES or name == "parameter"


class ElementGenerator:
    """Emits the code of elements into `body`.

    Attributes:
        flat: indices are positions in memory, which all arrays of the kernel share.
    """

    def __init__(self, body: Body, math: IndexMath) -> None:
        self.body = body
        self.b = body.b
        self.math = math
        self.flat = False
        self._depth = 0

    def element(
        self, frame: Frame, inst: Instruction, index: Index, path: ShapeIndex = ()
    ) -> Value:
        """Return element `index` of leaf `path` of `inst`."""
        request: Request = (frame, inst, path, index)
        result = self.body.values.get(request)
        if result is not None:
            return result  # type: ignore[no-any-return]
        stack: list[tuple[Request, Rule]] = [(request, self._start(request))]
        answer: Any = None
        while True:
            request, running = stack[-1]
            try:
                wanted = running.send(answer)
            except StopIteration as stop:
                answer = stop.value
                self.body.keep(request, answer)
                stack.pop()
                if not stack:
                    return answer  # type: ignore[no-any-return]
                continue
            answer = self.body.values.get(wanted)
            if answer is None:
                stack.append((wanted, self._start(wanted)))

    def _start(self, request: Request) -> Rule:
        """Return the rule, not yet run, for the element that `request` names.

        Where the instruction is a source of its frame (a parameter, or a value in memory) that is
        a load; otherwise the rule of its opcode, elementwise if it has none.
        """
        frame, inst, path, index = request
        if inst in frame.sources:
            return self._source(frame, inst, path, index)
        leaf = shape_at(inst.shape, path)
        if isinstance(leaf, ArrayShape) and leaf.elements == 0:
            return _of_nothing(self, leaf)
        name = inst.opcode.name
        array_rule = RULES.get(name)
        if array_rule is not None:
            return array_rule(self, frame, inst, index)
        leaf_rule = LEAF_RULES.get(name)
        if leaf_rule is not None:
            return leaf_rule(self, frame, inst, path, index)
        if inst.opcode.elemental is None:
            raise UnsupportedError(
                f"{name} inside a fused computation is not supported on cpu", inst.span
            )
        return _elementwise(self, frame, inst, index)

    def _source(self, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index) -> Rule:
        source = frame.sources[inst]
        if isinstance(source, Value):
            return source
        if isinstance(source, tuple):
            value = yield source[0], source[1], path, index
            return value
        array = source[_leaf_number(inst, path)]
        if self.flat and array.dims:
            return self.b.load(array.pointer, array.dtype, index[0])
        return array.load(self.math, index)

    def inline(self, computation: Computation, arguments: Sequence[Value]) -> list[Value]:
        """Inline `computation` on scalars; return the leaves of its result."""
        if self._depth >= MAX_NESTING:
            raise UnsupportedError(f"computations are nested more than {MAX_NESTING} deep")
        self._depth += 1
        flat, self.flat = self.flat, False
        frame = Frame(
            {
                p: self.b.convert(value, p.array.dtype)
                for p, value in zip(computation.parameters, arguments, strict=True)
            }
        )
        root = computation.root
        values = [self.element(frame, root, (), path) for path, _ in leaves(root.shape)]
        self.flat = flat
        self._depth -= 1
        return values

    def choose(self, condition: Value, request: Request, otherwise: Request) -> Rule:
        """Return the element `request` if `condition` holds, else `otherwise`; only one is run."""
        if condition.text in ("true", "false"):
            value = yield request if condition.text == "true" else otherwise
            return value
        if isinstance(condition, VARYING):
            raise NeedsScalars("a branch that only some lanes take")
        fn = self.body.fn
        then, other, after = fn.new_block(), fn.new_block(), fn.new_block()
        fn.branch(condition.text, then, other)
        incoming = []
        for label, wanted in ((then, request), (other, otherwise)):
            fn.start_block(label)
            with self.body.scope():
                value = yield wanted
            incoming.append((value, fn.block))
            fn.jump(after)
        fn.start_block(after)
        return self.body.merge(incoming)


def _leaf_number(inst: Instruction, path: ShapeIndex) -> int:
    if not path:
        return 0
    for number, (index, _) in enumerate(leaves(inst.shape)):
        if index == path:
            return number
    raise AssertionError(f"{inst.name} has no leaf {path}")


def _of_nothing(g: ElementGenerator, shape: ArrayShape) -> Rule:
    """Return an arbitrary value for an element of an empty array; the code never runs."""
    return g.b.const_element(shape.dtype, shape.dtype.numpy.type(0))
    yield


def operand_index(operand: Instruction, index: Index) -> Index:
    """Return the index of an operand of an elementwise instruction; scalars are shared."""
    return index if operand.array.dims else ()


def _elementwise(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    values = []
    for operand in inst.operands:
        values.append((yield frame, operand, (), operand_index(operand, index)))
    assert inst.opcode.elemental is not None
    value: Value = inst.opcode.elemental(g.b, inst, *values)
    return value


# ---------------------------------------------------------------- constants, tuples, calls


@leaf_rule("constant")
def _constant(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    literal = inst.attributes.literal
    for i in path:
        literal = literal.value[i]
    shape = inst.array if not path else literal.shape
    if literal.uniform is not None:
        return g.b.const_element(shape.dtype, literal.uniform)
    array = constant_array(g, inst, shape, literal)
    position = index[0] if g.flat else g.math.linear(index, array.strides)
    return g.b.load(array.pointer, array.dtype, position)
    yield


def constant_array(
    g: ElementGenerator, inst: Instruction, shape: ArrayShape, literal: Any
) -> IrArray:
    """Return the constant as an array of the program's read-only data."""
    key = ("constant", literal)
    result = g.body.values.get(key)
    if result is None:
        values = literal.array.transpose(tuple(reversed(shape.minor_to_major)))
        name = g.body.fn.byte_constant(values.tobytes())
        result = array_in_memory(Value(shape.dtype, name), shape)
        g.body.keep(key, result)
    assert isinstance(result, IrArray)
    return result


@leaf_rule("tuple")
def _tuple(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    value = yield frame, inst.operands[path[0]], path[1:], index
    return value


@leaf_rule("get-tuple-element")
def _get_tuple_element(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    value = yield frame, inst.operands[0], (inst.attributes.index, *path), index
    return value


@leaf_rule("call", "fusion")
def _call(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    key = ("frame", frame, inst)
    inner = g.body.values.get(key)
    (computation,) = inst.called
    if inner is None:
        operands = [(frame, operand) for operand in inst.operands]
        inner = Frame(dict(zip(computation.parameters, operands, strict=True)))
        g.body.keep(key, inner)
    value = yield inner, computation.root, path, index
    return value


@rule("map")
def _map(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    values = []
    for operand in inst.operands:
        values.append((yield frame, operand, (), index))
    return g.inline(inst.called[0], values)[0]
