"""The type of an opcode row, and the registry of rows.

Everything hloc knows about an opcode is in its row (`hloc/ops/`): arity, attributes, shape
rule, evaluator, elemental emitter, cost, law. Parser, printer, verifier, REPL and docs read it from
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias

from hloc.dtypes import DType
from hloc.ir.factors import FactorDraft
from hloc.lazy_dataclass import dataclass
from hloc.shapes import Shape

if TYPE_CHECKING:
    from hloc.ir.computation import Computation
    from hloc.ir.example import Example
    from hloc.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class ShapeRequest:
    """The input of a shape rule.

    Attributes:
        operands: shapes of the operands.
        attributes: the row's attributes dataclass, None if the row has none.
        called: the called computations, in the order of `Opcode.calls`.
        declared: the shape the text wrote, None if it left it out.
    """

    operands: tuple[Shape, ...]
    attributes: Any = None
    called: tuple[Computation, ...] = ()
    declared: Shape | None = None


InferFunction: TypeAlias = Callable[[ShapeRequest], Shape]
"""Return the result shape or raise `HloError`; a rule that cannot infer checks `declared`."""

HostValue: TypeAlias = Any
"""A value of the evaluator: a NumPy array, a tuple of host values, or None for a token."""

Operands: TypeAlias = tuple[HostValue, ...]

CallFunction: TypeAlias = Callable[..., HostValue]
"""`call(computation, *host_values)` evaluates a called computation."""

EvaluateFunction: TypeAlias = Callable[["Instruction", Operands, CallFunction], HostValue]
"""`evaluate(inst, operands, call)`: NumPy semantics of one instruction."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The participants of a collective, in the order of their ranks.

    Attributes:
        parts: the operands of each.
        members: their flattened ids.
        call: evaluates the reducer.
    """

    parts: Sequence[Operands]
    members: tuple[int, ...]
    call: CallFunction


ExchangeFunction: TypeAlias = Callable[["Instruction", Rendezvous], list[HostValue]]
"""`exchange(inst, parts, call)`: NumPy semantics of a collective, one result per participant."""


class ScalarBuilder(Protocol):
    """The builder interface of elemental emitters.

    Values are typed by HLO element type. Narrow floats (bf16, f16, fp8 ...) are computed in f32 and
    every arithmetic result is rounded to its type; use `convert(x, F32)` first to round only once.
    Integers below a byte stay in the range of their type. Both operands have the same type.
    """

    def const(self, dtype: DType, value: float | int | bool | complex) -> Any: ...

    # floats
    def fadd(self, x: Any, y: Any) -> Any: ...
    def fsub(self, x: Any, y: Any) -> Any: ...
    def fmul(self, x: Any, y: Any) -> Any: ...
    def fdiv(self, x: Any, y: Any) -> Any: ...
    def fneg(self, x: Any) -> Any: ...

    # integers; pred takes part in and_, or_, xor only
    def iadd(self, x: Any, y: Any) -> Any: ...
    def isub(self, x: Any, y: Any) -> Any: ...
    def imul(self, x: Any, y: Any) -> Any: ...
    def idiv(self, x: Any, y: Any) -> Any:
        """Truncating division by the sign of the type; `y` is not 0 and the result fits."""

    def irem(self, x: Any, y: Any) -> Any:
        """Remainder with the sign of `x`; `y` is not 0 and `x / y` fits."""

    def integer_constant(self, x: Any) -> int | None:
        """Return the number that an integer is known to be, None if it is not known."""

    def and_(self, x: Any, y: Any) -> Any: ...
    def or_(self, x: Any, y: Any) -> Any: ...
    def xor(self, x: Any, y: Any) -> Any: ...
    def shl(self, x: Any, y: Any) -> Any:
        """Shift left; `y` is below the width."""

    def lshr(self, x: Any, y: Any) -> Any:
        """Logical shift right within the width of the type; `y` is below the width."""

    def ashr(self, x: Any, y: Any) -> Any:
        """Arithmetic shift right; `y` is below the width."""

    # all types
    def compare(self, direction: str, x: Any, y: Any) -> Any:
        """`EQ NE LT LE GT GE`, IEEE for floats, by the sign of the type for integers."""

    def select(self, pred: Any, on_true: Any, on_false: Any) -> Any: ...
    def convert(self, x: Any, dtype: DType) -> Any:
        """HLO's `convert`: saturating float to integer, wrapping integers, nearest-even floats."""

    def bitcast(self, x: Any, dtype: DType) -> Any:
        """Reinterpret the bits; same width."""

    # complex
    def complex(self, real: Any, imag: Any) -> Any: ...
    def real(self, z: Any) -> Any: ...
    def imag(self, z: Any) -> Any: ...

    def intrinsic(self, name: str, *args: Any) -> Any:
        """One instruction of most machines.

        `fabs floor ceil trunc rint sqrt copysign minimum maximum` (floats; minimum and maximum
        propagate NaN and order -0 below +0), `fma`, `ctpop ctlz smin smax umin umax` (integers).
        """

    def math(self, name: str, *args: Any) -> Any:
        """A function of floats; of types below f32 it is computed in f32 and rounded once.

        `exp expm1 log log1p tanh sin cos tan erf cbrt pow atan2 logistic fmod asin acos atan sinh
        cosh asinh acosh atanh`.
        """


ElementalFunction: TypeAlias = Callable[..., Any]
"""`elemental(b, inst, *operands)` emits one element of an elementwise instruction."""


FactorFunction: TypeAlias = Callable[[FactorDraft, "Instruction"], None]
"""`factors(draft, inst)` adds to an empty draft which dimensions are sharded together."""


@dataclass(frozen=True, slots=True)
class CalledRole:
    """The attribute that names a called computation: `to_apply`, `condition` ...

    Attributes:
        many: the value is a list of computations.
        aliases: other accepted spellings.
    """

    name: str
    many: bool = False
    optional: bool = False
    aliases: tuple[str, ...] = ()


_SIGNATURE = re.compile(r"([a-z][\w-]*)\(([^)]*)\)")
_AS_READ = -1


@dataclass(frozen=True, slots=True, eq=False)
class Opcode:
    """One row of the table.

    Attributes:
        reads: the law in one line, which begins with the signature where no name is given:
            `add(x, y) = x + y`, `tuple(x, ...)`.
        infer: the shape rule.
        name: HLO's spelling, `dynamic-update-slice`; by default that in the signature.
        arity: number of operands, None if it varies; by default that in the signature.
        shape_required: the text must write the result shape.
        attributes: frozen dataclass whose fields are made with `attributes.attr`, or None.
        calls: roles of called computations, in the order of `Instruction.called`.
        parenthesis: name of the attribute written in place of the operands
            (`number` of parameter, `literal` of constant), else "".
        evaluate: NumPy semantics, None if one device cannot run it.
        exchange: NumPy semantics of a collective among any number of participants.
        phases: how a collective moves its data in rings: `scatter` (each member ends with 1/n),
            `gather` (each with n times as much), `swap` (each sends every other its share),
            `shift` (each sends all it has to one other), `relay` (all but the last pass it on).
        elemental: emitter of one element.
        factors: which dimensions of operands and results are sharded together; None if none are, or
            all as in every elementwise row.
        elementwise: element i of the result depends on element i of the operands only;
            by default true for rows with an `elemental`.
        data_movement: each element of the result is an element of an operand, or the padding;
            nothing is computed, and no buffer is updated in place.
        contraction: sums products over dimensions; the program chooses the type of the result.
        control_flow: the called computations run instruction by instruction, as programs of their
            own, and not inside one kernel.
        nop: names or groups existing values: computes nothing and moves no bytes.
        forwards: the result is the operand that is no token, or all operands as a tuple,
            unchanged.
        ended_by: for an opcode that starts an asynchronous operation: the opcodes that may use it.
        commutative: the two operands may be swapped.
        associative: a reducer that may group its operands in any way; HLO allows the rounding
            of floats to differ.
        idempotent: f(x, x) = x.
        modular: the low bits of an integer result depend on the low bits of the operands only.
        keeps_finite: finite operands give no NaN, and infinities only by overflow.
        side_effect: may not be removed, duplicated or reordered with others of its kind.
        flops: floating-point operations per element of the result.
        transcendental: an elementary function, counted apart from flops: one per element.
        weight: time per element on a CPU, where an add is 1 and a byte from memory about 1/4;
            by default 1 for elementwise rows and 0 for all others.
        gpu_weight: time per element on a GPU, where an f32 instruction is 1; for data movement,
            the time to find the element.
        refusal: why one device cannot run it, "" if one can.
        example: a small module that shows it; elementwise rows without attributes need none.
        result_accuracy: takes `result_accuracy=` (format reference, 10.11).
    """

    reads: str
    infer: InferFunction
    name: str = ""
    arity: int | None = _AS_READ
    shape_required: bool = False
    attributes: type[Any] | None = None
    calls: tuple[CalledRole, ...] = ()
    parenthesis: str = ""
    evaluate: EvaluateFunction | None = None
    exchange: ExchangeFunction | None = None
    phases: tuple[str, ...] = ()
    elemental: ElementalFunction | None = None
    factors: FactorFunction | None = None
    elementwise: bool = True
    data_movement: bool = False
    contraction: bool = False
    control_flow: bool = False
    nop: bool = False
    forwards: bool = False
    ended_by: tuple[str, ...] = ()
    commutative: bool = False
    associative: bool = False
    idempotent: bool = False
    modular: bool = False
    keeps_finite: bool = False
    side_effect: bool = False
    flops: int = 0
    transcendental: bool = False
    weight: int = -1
    gpu_weight: int = 1
    refusal: str = ""
    example: Example | None = None
    result_accuracy: bool = False

    def __post_init__(self) -> None:
        if not self.name or self.arity == _AS_READ:
            signature = _SIGNATURE.match(self.reads)
            assert signature, f"`reads` does not begin with a signature: {self.reads}"
            name, operands = signature.groups()
            object.__setattr__(self, "name", self.name or name)
            if self.arity == _AS_READ:
                count = len(operands.split(", ")) if operands else 0
                object.__setattr__(self, "arity", None if "..." in operands else count)
        if self.elemental is None:
            object.__setattr__(self, "elementwise", False)
        if self.weight < 0:
            object.__setattr__(self, "weight", int(self.elementwise))

    @property
    def has_kernel(self) -> bool:
        """False for opcodes that run no code of their own: nops, forwarding and control flow."""
        return not (self.nop or self.forwards or self.control_flow)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return opcode_row, (self.name,)

    def __copy__(self) -> Opcode:
        return self

    def __deepcopy__(self, memo: object) -> Opcode:
        return self


OPCODES: dict[str, Opcode] = {}
"""Every row by name; filled by importing `hloc.ops`."""


_Fields = ParamSpec("_Fields")


def _adding(row_of: Callable[_Fields, Opcode]) -> Callable[_Fields, Opcode]:
    def define(*args: _Fields.args, **fields: _Fields.kwargs) -> Opcode:
        row = row_of(*args, **fields)
        assert row.name not in OPCODES, f"opcode {row.name} is defined twice"
        OPCODES[row.name] = row
        return row

    return define


define = _adding(Opcode)
"""`define(reads=..., ...)`, with the fields of `Opcode`, adds a row to the table and returns it."""


def opcode_row(name: str) -> Opcode:
    """Return the row called `name`; raises KeyError. `hloc.ops` must have been imported."""
    return OPCODES[name]


def names_of(fact: Callable[[Opcode], bool]) -> frozenset[str]:
    """Return the names of the rows for which `fact` holds: `names_of(lambda row: row.commutative)`.

    For uses that need names, such as `acts_on` of a pass; for one instruction use its row.
    """
    return frozenset(name for name, row in OPCODES.items() if fact(row))
