"""Element rules of control flow inside called computations: reducers, comparators, mapped scalars.

Control flow over arrays never reaches this code: `fusion_splitter` moves it out of fusions.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import dense_array
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.elemental import ElementGenerator, Frame, Request, Rule, leaf_rule
from hloc.dtypes import PRED
from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, ShapeIndex, leaves


@leaf_rule("conditional")
def _conditional(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    selector, *operands = inst.operands
    chosen = yield frame, selector, (), ()
    requests: list[Request] = []
    for branch, operand in zip(inst.called, operands, strict=True):
        inner = Frame({branch.parameters[0]: (frame, operand)})
        requests.append((inner, branch.root, path, index))
    if selector.array.dtype is PRED:
        value = yield from g.choose(chosen, requests[0], requests[1])
        return value
    value = yield from _switch(g, chosen, requests)
    return value


def _switch(g: ElementGenerator, selector: Value, requests: Sequence[Request]) -> Rule:
    """Return the element of request number `selector`; of the last if it is out of range."""
    fn, after = g.body.fn, g.body.fn.new_block()
    incoming = []
    for number, request in enumerate(requests):
        is_last = number + 1 == len(requests)
        if not is_last:
            here, beyond = fn.new_block(), fn.new_block()
            hit = g.b.compare("EQ", selector, g.b.const(selector.dtype, number))
            fn.branch(hit.text, here, beyond)
            fn.start_block(here)
        with g.body.scope():
            value = yield request
        incoming.append((value, fn.block))
        fn.jump(after)
        fn.start_block(after if is_last else beyond)
    return g.body.merge(incoming)


@leaf_rule("while")
def _while(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    """Emit the loop with its state in stack slots, one per leaf, and keep the whole result."""
    key = ("while", frame, inst)
    result = g.body.values.get(key)
    if result is None:
        condition, body = inst.called
        paths = [at for at, _ in leaves(inst.shape)]
        state = [
            dense_array(g.b.allocate(dtype), dtype, ())
            for dtype in (_scalar(inst, leaf).dtype for _, leaf in leaves(inst.shape))
        ]
        for array, at in zip(state, paths, strict=True):
            array.store(g.math, (), (yield frame, inst.operands[0], at, ()))
        with g.body.repeat_while() as head:
            test = Frame({condition.parameters[0]: state})
            head.go_on_if((yield test, condition.root, (), ()))
            step = Frame({body.parameters[0]: state})
            # The whole new state is computed before any of it is stored.
            values = []
            for at in paths:
                values.append((yield step, body.root, at, ()))
            for array, value in zip(state, values, strict=True):
                array.store(g.math, (), value)
        result = {at: a.load(g.math, ()) for at, a in zip(paths, state, strict=True)}
        g.body.keep(key, result)
    return result[path]  # type: ignore[no-any-return]


def _scalar(inst: Instruction, leaf: object) -> ArrayShape:
    if not isinstance(leaf, ArrayShape) or leaf.dims or leaf.dtype.is_special:
        raise UnsupportedError(
            f"a while over {leaf} inside a called computation is not supported on cpu", inst.span
        )
    return leaf
