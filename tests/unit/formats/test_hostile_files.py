"""Damaged and hostile files give an `HloError`, quickly, that says what is wrong where."""

import gzip
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.errors import HloError
from hloc.formats import wire
from hloc.formats.read import read_snapshot
from hloc.formats.runtime import message_class
from hloc.formats.to_proto import module_to_bytes, module_to_proto
from hloc.formats.wire import MAX_DEPTH
from tests.unit.formats.samples import SAMPLES, needs_protobuf

pytestmark = needs_protobuf


def message_of(data: bytes) -> str:
    with pytest.raises(HloError) as caught:
        read_snapshot(data, "f.pb")
    return str(caught.value)


def length_delimited(number: int, data: bytes) -> bytes:
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def module_with_shape(shape: bytes) -> bytes:
    inst = length_delimited(1, b"a") + length_delimited(2, b"parameter")
    inst += length_delimited(3, shape)
    computation = length_delimited(1, b"e") + length_delimited(2, inst)
    return length_delimited(1, b"m") + length_delimited(3, computation)


def edited(edit: Callable[[Any, Any], None], name: str = "plain") -> bytes:
    """Return a sample after `edit(module, instruction 1 of its last computation)`."""
    proto = module_to_proto(hloc.parse(SAMPLES[name]))
    edit(proto, proto.computations[-1].instructions[1])
    data: bytes = proto.SerializeToString()
    return data


def unknown_opcode(_module: Any, inst: Any) -> None:
    inst.opcode = b"frobnicate"


def missing_operand(_module: Any, inst: Any) -> None:
    inst.operand_ids.append(99)


def id_twice(module: Any, inst: Any) -> None:
    inst.id = module.computations[-1].instructions[0].id


def huge_literal(_module: Any, inst: Any) -> None:
    inst.literal.shape.dimensions[:] = [1 << 40, 1 << 20]


def wrong_layout(_module: Any, inst: Any) -> None:
    inst.shape.layout.minor_to_major[:] = [0, 0]


def wrong_dtype(_module: Any, inst: Any) -> None:
    inst.shape.element_type = 77


def no_entry(module: Any, _inst: Any) -> None:
    module.entry_computation_id = 5


def calls_later(module: Any, inst: Any) -> None:
    inst.opcode = b"call"
    inst.called_computation_ids.append(module.computations[-1].id)


def wrong_shape(module: Any, _inst: Any) -> None:
    module.computations[-1].instructions[2].shape.dimensions[:] = [3, 3]


def rank_65(_module: Any, inst: Any) -> None:
    for shape in (inst.shape, inst.literal.shape):
        shape.dimensions[:] = [1] * 65
        shape.is_dynamic_dimension[:] = [False] * 65
        shape.layout.minor_to_major[:] = list(range(65))
    inst.literal.f32s[:] = [b"1234"]


def no_dim_labels(module: Any, inst: Any) -> None:
    inst.opcode = b"convolution"
    inst.operand_ids[:] = [module.computations[-1].instructions[0].id] * 2


def too_many_devices(_module: Any, inst: Any) -> None:
    inst.sharding.type = 3
    inst.sharding.tile_assignment_dimensions[:] = [1 << 30, 1 << 30]
    inst.sharding.iota_reshape_dims[:] = [1 << 60]
    inst.sharding.iota_transpose_perm[:] = [0]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (unknown_opcode, "computations[0].instructions[1] (c): unknown opcode 'frobnicate'"),
        (missing_operand, "there is no instruction with id 99 before it"),
        (id_twice, "instruction id 0 is given twice"),
        (huge_literal, "has 6 elements, not 1152921504606846976"),
        (wrong_layout, "the layout [0, 0] is no order of 2 dimensions"),
        (wrong_dtype, "element type number 77 is unknown"),
        (no_entry, "there is no entry computation 5"),
        (calls_later, "calls computation 0, which is not defined before it"),
        (wrong_shape, "sum"),
        (rank_65, "a literal of shape"),
        (no_dim_labels, "convolution has no dim_labels"),
        (too_many_devices, "at most 2^20 devices"),
    ],
)
def test_wrong_messages_are_named(edit: Callable[[Any, Any], None], words: str) -> None:
    assert words in message_of(edited(edit))


def test_deep_nesting_is_refused() -> None:
    shape = b"\x10\x0d"
    for _ in range(MAX_DEPTH):
        shape = b"\x10\x0d" + length_delimited(4, shape)
    assert f"nested more than {MAX_DEPTH} deep" in message_of(module_with_shape(shape))


def test_many_tiny_messages_are_refused_before_they_take_memory() -> None:
    data = module_with_shape(b"\x10\x0b\x2a\x00")
    _, _, computation = data.partition(b"\x1a")
    computation = computation[1:] + b"\x12\x00" * 1_600_000
    data = length_delimited(1, b"m") + length_delimited(3, computation)
    assert "take more than 1 GiB of memory" in message_of(data)


@pytest.mark.parametrize("field", [b"\x0a\x00", b"\x7a\x00"], ids=["name", "unknown"])
def test_many_empty_fields_are_refused(field: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FIELDS", 1000)
    wire.check(field * 1000, "HloModuleProto", "m.pb")
    with pytest.raises(HloError, match="there are more than 1,000 fields"):
        wire.check(field * 1001, "HloModuleProto", "m.pb")


def test_truncated_message_is_refused_with_its_path() -> None:
    data = module_to_bytes(hloc.parse(SAMPLES["plain"]))
    assert "damaged protocol buffer" in message_of(data[: len(data) // 2])


def _zipped(data: bytes) -> bytes:
    """Return a gzip file without the time of day: the same bytes every time."""
    return gzip.compress(data, mtime=0)


BAD_GZIP: dict[str, Callable[[], bytes]] = {
    "holds more than 67108864 bytes": lambda: _zipped(b"\0" * (100 << 20)),
    "a gzip file inside a gzip file": lambda: _zipped(_zipped(b"HloModule m")),
    "ends too early": lambda: _zipped(b"HloModule m")[:-9],
    "damaged gzip file": lambda: _zipped(b"HloModule m")[:-8] + b"12345678",
}


@pytest.mark.parametrize("words", BAD_GZIP)
def test_bad_gzip(words: str) -> None:
    assert words in message_of(BAD_GZIP[words]())


@cache
def seed_of(name: str) -> bytes:
    return module_to_bytes(hloc.parse(SAMPLES[name]))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 1 << 20), st.binary(min_size=1, max_size=4))
def test_changed_bytes_never_crash(name: str, where: int, new: bytes) -> None:
    seed = seed_of(name)
    at = where % len(seed)
    data = seed[:at] + new + seed[at + len(new) :]
    try:
        module = read_snapshot(data, "f").module
    except HloError:
        return
    module_to_bytes(module)
    hloc.parse(module.to_text(large_constants=True))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_changed_fields_never_crash(name: str, data: st.DataObject) -> None:
    proto = message_class("HloModuleProto").FromString(seed_of(name))
    computation = data.draw(st.sampled_from(list(proto.computations)))
    inst = data.draw(st.sampled_from(list(computation.instructions)))
    holder = data.draw(
        st.sampled_from([inst, inst.shape, inst.sharding, inst.literal, computation])
    )
    present = [field for field, _ in holder.ListFields() if field.type in (3, 5)]
    if not present:
        return
    field = data.draw(st.sampled_from(present))
    value = data.draw(st.sampled_from([-(2**31), -1, 0, 1, 2, 5, 2**31 - 1]))
    if field.is_repeated:
        getattr(holder, field.name)[0] = value
    else:
        setattr(holder, field.name, value)
    try:
        module = read_snapshot(proto.SerializeToString(), "f").module
    except HloError:
        return
    hloc.parse(module.to_text(large_constants=True))
