"""Builds the modules in which a rule may fire, from its own pattern: the result first, then down.

Every decision is a pick (`choices.py`), so that all modules within a bound are built, one after
another. Most break a guard; the caller asks the rule itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from hloc.dtypes import PRED, DType, component_of
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import OPCODES, opcode_row
from hloc.ops.builder import Builder
from hloc.opt.pattern import P
from hloc.opt.rule import Rule
from hloc.shapes import ArrayShape
from tests.prove.bounds import Bound, Dims, constants
from tests.prove.choices import Choices, DoesNotFitError
from tests.prove.hints import Hint

_BOUNDED = ("and", "remainder", "maximum", "minimum")

MANY_PLACES = 4
"""Constants of modules whose sizes and attributes are enumerated: as few as of so many places."""

MAX_REMAINDER_BITS = 16
"""Z3 takes minutes over remainders of wider types by a known number."""

Patterns: TypeAlias = tuple[P, ...] | None
Drawer: TypeAlias = Callable[["Drawing", Patterns, DType, Dims], Instruction]
"""`drawer(drawing, patterns, dtype, dims)`: draws one opcode and its operands."""


class Drawing:
    """One module for `rule`.

    Attributes:
        kind: the element type in question, which some array of the module has.
        bound: of the sizes.
        places: how many constants multiply the combinations.
        b: builds in the entry computation.
    """

    def __init__(
        self,
        rule: Rule,
        hint: Hint,
        kind: DType,
        bound: Bound,
        choices: Choices,
        drawers: Mapping[str, Drawer],
    ) -> None:
        self._drawers = drawers
        self.rule, self.hint, self.kind, self.bound = rule, hint, kind, bound
        self.pick = choices.pick
        self.module = Module("drawn")
        self.b = Builder(self.module.add_computation("entry"))
        self._found: dict[str, Instruction] = {}
        self._leaves: list[Instruction] = []
        self._parameters = 0
        self._depth = 0
        several = 2 * hint.against_constants + bool(hint.leaves)
        self.places = constant_places(rule.pattern) + several
        if bound.rank:
            self.places = MANY_PLACES

    def drawn(self) -> tuple[Module, Instruction]:
        """Return the module and the instruction that the rule may replace.

        Raises:
            DoesNotFitError: these picks break a shape rule, or nothing has the type in question.
        """
        pattern = self.rule.pattern
        dims = self.pick(self.hint.dims or self.bound.dims())
        kinds = dict.fromkeys((self.kind, PRED, component_of(self.kind)))
        dtype = PRED if pattern.opcodes == ("compare",) else self.pick(tuple(kinds))
        try:
            root = self.draw(pattern, dtype, dims, root=True)
            self.b.computation.set_root(root)
        except HloError:
            raise DoesNotFitError from None
        used = (i.array.dtype for i in self.b.computation.instructions if _is_array(i))
        if self.kind not in used:
            raise DoesNotFitError
        self.module.set_entry(self.b.computation)
        self.module.log.recording = True
        return self.module, root

    # ---- one pattern

    def draw(self, pattern: P, dtype: DType, dims: Dims, *, root: bool = False) -> Instruction:
        """Return an instruction of `pattern`, `dtype` and `dims`."""
        if pattern.bind in self._found:
            known = self._found[pattern.bind]
            if not _is_array(known) or (known.array.dtype, known.array.dims) != (dtype, dims):
                raise DoesNotFitError
            return known
        opcodes = pattern.opcodes or (self.hint.opcodes if root else ())
        if opcodes:
            inst = self.opcode(self.pick(opcodes), pattern.operands, dtype, dims)
        else:
            inst = self._leaf(pattern.when, dtype, dims)
        self.bind(pattern, inst)
        return inst

    def bind(self, pattern: P, inst: Instruction) -> None:
        """Note what the name of a pattern stands for, if it has one."""
        if pattern.bind:
            self._found[pattern.bind] = inst

    @property
    def nested(self) -> bool:
        """True while an open operand is drawn."""
        return self._depth > 0

    def open(self, dtype: DType, dims: Dims) -> Instruction:
        """Return an operand of which the pattern says nothing."""
        return self._leaf(None, dtype, dims)

    def _leaf(
        self, when: Callable[[Instruction], bool] | None, dtype: DType, dims: Dims
    ) -> Instruction:
        makers: list[Callable[[], Instruction]] = [lambda: self.parameter(dtype, dims)]
        if when is not None:
            makers += self._splats(dtype, dims)
        if self.hint.same:
            shape = ArrayShape(dtype, dims)
            makers += [lambda i=i: i for i in self._leaves if i.shape == shape]  # type: ignore[misc]
        if self._depth < 1 and not self._splats_asked(when):
            leaves = (name for name in self.hint.leaves if name in OPCODES)
            makers += [self._under(name, dtype, dims) for name in leaves]
        inst = self.pick(makers)()
        if when is not None and not when(inst):
            raise DoesNotFitError
        self._leaves.append(inst)
        return inst

    def known(self, dtype: DType, dims: Dims) -> Instruction:
        """Return an array of one constant."""
        return self.pick(self._splats(dtype, dims))()

    def _splats_asked(self, when: Callable[[Instruction], bool] | None) -> bool:
        return when is not None and when.__name__ == "is_splat"

    def _under(self, name: str, dtype: DType, dims: Dims) -> Callable[[], Instruction]:
        def made() -> Instruction:
            if name == "remainder" and dtype.bits > MAX_REMAINDER_BITS:
                raise DoesNotFitError
            self._depth += 1
            if name in _BOUNDED:
                bound = self.known(dtype, dims)
                inst = self.b.instruction(name, (self.parameter(dtype, dims), bound))
            else:
                inst = self.opcode(name, None, dtype, dims)
            self._depth -= 1
            return inst

        return made

    def _splats(self, dtype: DType, dims: Dims) -> list[Callable[[], Instruction]]:
        shape = ArrayShape(dtype, dims)
        values = constants(dtype, self.places)
        return [lambda value=value: self.b.splat(value, shape) for value in values]  # type: ignore[misc]

    def parameter(self, dtype: DType, dims: Dims) -> Instruction:
        self._parameters += 1
        return self.b.parameter(self._parameters - 1, ArrayShape(dtype, dims))

    # ---- one opcode

    def opcode(
        self, name: str, patterns: tuple[P, ...] | None, dtype: DType, dims: Dims
    ) -> Instruction:
        """Draw operands and attributes for `name` so that the result is `dtype` and `dims`."""
        drawer = self._drawers.get(name)
        if drawer is not None:
            made = drawer(self, patterns, dtype, dims)
        elif opcode_row(name).elementwise:
            made = self._elementwise(name, patterns, dtype, dims)
        else:
            raise DoesNotFitError
        if _is_array(made) and (made.array.dims != dims or made.array.dtype is not dtype):
            raise DoesNotFitError
        return made

    def operands(
        self, patterns: tuple[P, ...] | None, wanted: Sequence[tuple[DType, Dims]]
    ) -> list[Instruction]:
        """Draw one operand per type and size wanted, open ones where the pattern ends."""
        given = patterns or ()
        if len(given) > len(wanted):
            raise DoesNotFitError
        given += (P(),) * (len(wanted) - len(given))
        pairs = zip(given, wanted, strict=True)
        return [self.draw(pattern, dtype, dims) for pattern, (dtype, dims) in pairs]

    def _elementwise(
        self, name: str, patterns: tuple[P, ...] | None, dtype: DType, dims: Dims
    ) -> Instruction:
        count, kind = opcode_row(name).arity, dtype
        assert isinstance(count, int), name
        if name in ("real", "imag", "complex"):
            kind = self.kind if name != "complex" else component_of(dtype)
        return self.b.instruction(name, self.operands(patterns, [(kind, dims)] * count))


def constant_places(pattern: P) -> int:
    """Return how many operands of the pattern may be constants."""
    inner = sum(map(constant_places, pattern.operands or ()))
    return inner + (pattern.when is not None and not pattern.opcodes)


def _is_array(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape)
