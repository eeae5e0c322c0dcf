"""Transfers and device ids: infeed, send, partition-id and relatives.

The rows define a single device: its ids are 0, and it has no
peer to send to. Several devices are in `hloc/evaluator/devices.py` and
`hloc/codegen/plan/exchange.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hloc.dtypes import U32, U64
from hloc.ir.attribute_fields import attr
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.ops.checks import check_compatible, check_token, declared_shape, declared_tuple, require
from hloc.shapes import TOKEN_SHAPE, ArrayShape, Shape, TupleShape, array_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class InfeedAttributes:
    infeed_config: str = attr("string", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutfeedAttributes:
    """`outfeed_shape` None is the shape of operand 0; it is always printed."""

    outfeed_shape: Shape | None = attr("shape", default=None, always=True)
    outfeed_config: str = attr("string", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelAttributes:
    channel_id: int | None = attr("int", default=None)
    is_host_transfer: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RngStateAttributes:
    delta: int = attr("int")


def infer_infeed(request: ShapeRequest) -> Shape:
    """Check the declared `(data, token[])`."""
    check_token("infeed", request, 0)
    declared = declared_tuple("infeed", request, 2)
    check_compatible("infeed", "element 1 of the result", declared.elements[1], TOKEN_SHAPE)
    return declared


def infer_outfeed(request: ShapeRequest) -> Shape:
    """Return `token[]`; `outfeed_shape` is as operand 0."""
    check_token("outfeed", request, 1)
    shape = request.attributes.outfeed_shape
    if shape is not None:
        check_compatible("outfeed", "outfeed_shape", shape, request.operands[0])
    return TOKEN_SHAPE


def infer_send(request: ShapeRequest) -> Shape:
    """Return `(data, u32[], token[])`."""
    check_token("send", request, 1)
    return TupleShape((request.operands[0], ArrayShape(U32), TOKEN_SHAPE))


def infer_recv(request: ShapeRequest) -> Shape:
    """Check the declared `(data, u32[], token[])`."""
    check_token("recv", request, 0)
    declared = declared_tuple("recv", request, 3)
    expected = TupleShape((declared.elements[0], ArrayShape(U32), TOKEN_SHAPE))
    check_compatible("recv", "the result", declared, expected)
    return declared


def infer_send_done(_request: ShapeRequest) -> Shape:
    """Return `token[]`."""
    return TOKEN_SHAPE


def infer_recv_done(request: ShapeRequest) -> Shape:
    """Return `(data, token[])` of the recv it ends."""
    (shape,) = request.operands
    require(
        isinstance(shape, TupleShape) and len(shape.elements) == 3,
        f"recv-done: operand 0 must be a recv, but is {shape.text_without_layout}",
    )
    assert isinstance(shape, TupleShape)
    return TupleShape((shape.elements[0], TOKEN_SHAPE))


def infer_id(_request: ShapeRequest) -> Shape:
    """Return `u32[]`."""
    return ArrayShape(U32)


def infer_rng_state(request: ShapeRequest) -> Shape:
    """Check the declared `u64[2]`."""
    declared = declared_shape("rng-get-and-update-state", request)
    check_compatible("rng-get-and-update-state", "the result", declared, array_shape(U64, 2))
    return declared


def _evaluate_id(_inst: Instruction, _operands: Operands, _call: CallFunction) -> HostValue:
    return np.asarray(0, np.uint32)


PARTITION_ID = define(
    reads="partition-id() is the number of this partition, 0 on one device",
    infer=infer_id,
    evaluate=_evaluate_id,
)

REPLICA_ID = define(
    reads="replica-id() is the number of this replica, 0 on one device",
    infer=infer_id,
    evaluate=_evaluate_id,
)

RNG_GET_AND_UPDATE_STATE = define(
    reads="rng-get-and-update-state() is the state of the device's generator, then adds delta",
    infer=infer_rng_state,
    shape_required=True,
    attributes=RngStateAttributes,
    side_effect=True,
    refusal="the state would outlive the run; pass a state to rng-bit-generator instead",
)

_refused = partial(
    define,
    shape_required=True,
    side_effect=True,
    refusal="one device has no other program or host queue to exchange data with",
)

INFEED = _refused(
    reads="infeed(token) takes data from the host's queue: (data, token)",
    infer=infer_infeed,
    attributes=InfeedAttributes,
)

OUTFEED = _refused(
    reads="outfeed(x, token) puts x into the host's queue",
    infer=infer_outfeed,
    attributes=OutfeedAttributes,
)

SEND = _refused(
    reads="send(x, token) starts sending x over a channel: (x, context, token)",
    infer=infer_send,
    attributes=ChannelAttributes,
)

SEND_DONE = _refused(
    reads="send-done(s) waits until s has been sent",
    infer=infer_send_done,
    attributes=ChannelAttributes,
)

RECV = _refused(
    reads="recv(token) starts receiving from a channel: (data, context, token)",
    infer=infer_recv,
    attributes=ChannelAttributes,
)

RECV_DONE = _refused(
    reads="recv-done(r) waits for the data of r: (data, token)",
    infer=infer_recv_done,
    attributes=ChannelAttributes,
)
