"""What a rule needs that its pattern does not say: types, sizes and opcodes of open operands."""

from __future__ import annotations

from dataclasses import replace

from hloc.dtypes import DTYPES, PRED, DType
from hloc.ir.opcode import names_of
from hloc.lazy_dataclass import dataclass
from hloc.prove.record import INTEGERS
from tests.prove.bounds import Dims

F16, F32, S32 = DTYPES["f16"], DTYPES["f32"], DTYPES["s32"]


@dataclass(frozen=True, slots=True)
class Hint:
    """Hints for one rule.

    Attributes:
        opcodes: those that the root is drawn from, if the pattern leaves it open.
        leaves: opcodes that open operands may have; `neighbours` stands for slices of one array
            side by side, `init` for a known init of a reduce.
        dims: sizes of the result instead of those of the bound.
        kinds: element types instead of all.
        sources: types that a convert starts from; () for all.
        same: open operands may be one that is there already.
        shapes: the rule is about shapes, though its pattern is elementwise.
        against_constants: compares have a constant on the right.
    """

    opcodes: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    dims: tuple[Dims, ...] = ()
    kinds: tuple[DType, ...] = ()
    sources: tuple[DType, ...] = ()
    same: bool = False
    shapes: bool = False
    against_constants: bool = False


_ELEMENTWISE = tuple(
    sorted(names_of(lambda row: row.elementwise and row.attributes is None and row.arity == 2))
)
_BOUNDED = Hint(
    leaves=("iota", "and", "remainder", "maximum", "minimum", "convert"),
    dims=((3,),),
    kinds=INTEGERS,
    sources=(PRED, DTYPES["u8"], DTYPES["s8"], DTYPES["u32"]),
)
_WHOLE_BYTES = tuple(dtype for dtype in INTEGERS if dtype.bits >= 8)
_COUNTED = ((16,), (17,), (4, 5), (2, 3, 4))

HINTS: dict[str, Hint] = {
    "elementwise-before-broadcast": Hint(
        opcodes=(*_ELEMENTWISE, "negate", "select", "compare"), leaves=("broadcast", "constant")
    ),
    "elementwise-before-reshape": Hint(
        opcodes=(*_ELEMENTWISE, "negate", "select", "compare"), leaves=("reshape", "constant")
    ),
    "concatenate-nested": Hint(leaves=("concatenate",)),
    "concatenate-slices": Hint(leaves=("neighbours",)),
    "concatenate-splats": Hint(leaves=("constant",)),
    "dynamic-slice-constant": Hint(leaves=("constant",)),
    "dynamic-update-slice-as-pad": Hint(leaves=("constant",)),
    "dynamic-update-slice-as-concatenate": Hint(leaves=("constant",)),
    "pad-with-same": Hint(leaves=("constant",)),
    "pad-pad": Hint(same=True),
    "add-updated-zeros": Hint(leaves=("constant",), dims=((2,),)),
    "add-updated-float-zeros": Hint(leaves=("constant",), dims=((1,),), kinds=(F16,)),
    "select-update": Hint(same=True),
    "select-update-first": Hint(same=True),
    "dynamic-slice-of-update": Hint(same=True),
    "dynamic-update-slice-twice": Hint(same=True),
    "reduce-reduce": Hint(leaves=("init",), dims=((), (2,))),
    "constant-as-iota": Hint(dims=_COUNTED, shapes=True),
    "select-same": Hint(same=True, leaves=("constant",)),
    "common-factor": Hint(same=True),
    **dict.fromkeys(
        (
            "divide-smaller",
            "remainder-smaller",
            "remainder-of-sum",
            "maximum-with-smaller",
            "minimum-with-larger",
            "clamp-inside",
            "abs-not-negative",
        ),
        _BOUNDED,
    ),
    "compare-decided": replace(_BOUNDED, against_constants=True),
    "and-contrary": Hint(same=True),
    "or-contrary": Hint(same=True),
    "and-or-bounds": Hint(
        same=True, kinds=(*INTEGERS, F16, DTYPES["f8e5m2"], F32), against_constants=True
    ),
    "convert-wide-operation": Hint(kinds=_WHOLE_BYTES, sources=_WHOLE_BYTES),
    "dimension-size": Hint(kinds=(S32,)),
}
