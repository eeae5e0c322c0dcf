"""Device memory and the state spaces: what an access may touch, and what it finds there."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.ptx import Memory, PtxFault, launch, parse_ptx
from tests.unit.ptx.ptx_running import HEADER, evaluate, kernel_text, ptx_of, run


def test_allocations_are_aligned_apart_and_keep_their_bytes() -> None:
    memory = Memory()
    first, second = memory.allocate(100), memory.allocate(300)
    assert first % 256 == second % 256 == 0
    assert second - first > 100
    memory.write(first, np.arange(25, dtype=np.int32))
    assert memory.read(first, 100).view(np.int32).tolist() == list(range(25))
    memory.copy(second, first, 100)
    assert memory.read(second, 100).view(np.int32).tolist() == list(range(25))


def test_growth_keeps_what_is_there() -> None:
    memory = Memory()
    first = memory.allocate(16)
    memory.write(first, b"0123456789abcdef")
    memory.allocate(1 << 22)
    assert memory.read(first, 16).tobytes() == b"0123456789abcdef"


def test_freed_room_is_used_again_when_it_would_cost_memory() -> None:
    memory = Memory()
    for _ in range(100):
        memory.free(memory.allocate(1 << 16))
    assert memory.capacity == 1 << 20
    assert memory.allocated_bytes == 0


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m, a: m.read(a, 8), "read of uninitialised memory: byte 0 of 8"),
        (lambda m, a: m.write(a, bytes(65)), "write of 65 bytes"),
        (lambda m, a: m.write(a - 1, bytes(1)), "is in no allocation"),
        (lambda m, a: m.free(a + 1), "where no allocation begins"),
        (lambda m, a: m.allocate(1 << 20), "out of device memory"),
        (lambda m, a: (m.free(a), m.write(a, b"x")), "write of 1 bytes"),
    ],
)
def test_misuse_by_the_host_is_refused(act, message: str) -> None:  # type: ignore[no-untyped-def]
    memory = Memory(limit_bytes=4096)
    with pytest.raises(PtxFault, match=message):
        act(memory, memory.allocate(64))


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_vectors_go_through_memory(count: int) -> None:
    names = ", ".join(f"%r{i}" for i in range(8, 8 + count))
    vector = f".v{count}" if count > 1 else ""
    operand = f"{{{names}}}" if count > 1 else names
    text = kernel_text(
        ".param .u64 out, .param .u64 in",
        f"""
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
    mad.wide.u32 %d0, %r0, {4 * count}, %d0; mad.wide.u32 %d1, %r0, {4 * count}, %d1;
    ld.global.nc{vector}.b32 {operand}, [%d0]; st.global{vector}.b32 [%d1], {operand};""",
    )
    data = np.random.default_rng(0).integers(0, 1 << 32, 64 * count, dtype=np.uint32)
    (got, _), _ = run(text, "k", [data, data], grid=(1, 1, 1), block=(64, 1, 1))
    np.testing.assert_array_equal(got, data)


@pytest.mark.parametrize("size", [1, 2])
def test_narrow_loads_extend(size: int) -> None:
    data = np.array([0, 1, 127, 128, 255], np.uint8).astype(f"u{size}")
    if size == 2:
        data = data * np.uint16(257)
    for letter in "us":
        body = f"mov.u64 %d0, %a; ld.global.{letter}{8 * size} %out, [%d0];"
        got = evaluate(body, [data], f"{'i' if letter == 's' else 'u'}8")
        np.testing.assert_array_equal(got, data.view(f"{'i' if letter == 's' else 'u'}{size}"))


def test_generic_addresses_find_their_space() -> None:
    """Even lanes point into shared memory, odd ones into local, both through one load."""
    text = kernel_text(
        ".param .u64 out",
        """
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mad.wide.u32 %d0, %r0, 4, %d0;
    mov.u64 %d1, tile; cvta.shared.u64 %d1, %d1; mad.wide.u32 %d1, %r0, 4, %d1;
    mov.u64 %d2, own; cvta.local.u64 %d3, %d2;
    and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 0; selp.b64 %d4, %d1, %d3, %p0;
    add.u32 %r2, %r0, 100; st.u32 [%d4], %r2; ld.u32 %r3, [%d4];
    isspacep.shared %p1, %d4; selp.u32 %r4, 1000, 0, %p1; add.u32 %r3, %r3, %r4;
    st.global.u32 [%d0], %r3;""",
        ".shared .align 4 .b8 tile[256]; .local .align 4 .b8 own[4];",
    )
    (got,), _ = run(text, "k", [np.zeros(64, np.uint32)], grid=(1, 1, 1), block=(64, 1, 1))
    n = np.arange(64)
    np.testing.assert_array_equal(got, n + 100 + np.where(n % 2 == 0, 1000, 0))


def test_module_variables_live_between_launches() -> None:
    text = kernel_text(
        ".param .u64 out",
        """
    ld.param.u64 %d0, [out]; ld.const.u32 %r0, [table+4]; ld.global.u32 %r1, [counter];
    add.u32 %r1, %r1, %r0; st.global.u32 [counter], %r1; st.global.u32 [%d0], %r1;
    ld.global.u64 %d1, [pointer]; ld.u32 %r2, [%d1+4]; st.global.u32 [%d0+4], %r2;""",
        before=".const .align 4 .u32 table[2] = {3, 5};\n.global .align 4 .b8 counter[4] = {7};\n"
        ".global .align 8 .u64 pointer = generic(table);",
    )
    module, memory = parse_ptx(text), Memory()
    out = memory.allocate(8)
    for expected in (12, 17):
        launch(module, "k", grid=(1, 1, 1), block=(1, 1, 1), arguments=[out], memory=memory)
        assert memory.read(out, 8).view(np.uint32).tolist() == [expected, 5]


def test_arguments_are_packed_by_type() -> None:
    text = kernel_text(
        ".param .u64 out, .param .f32 x, .param .u8 y, .param .align 8 .b8 z[16], .param .f64 w",
        """
    ld.param.u64 %d0, [out]; ld.param.f32 %r0, [x]; st.global.f32 [%d0], %r0;
    ld.param.u8 %h0, [y]; cvt.u32.u16 %r1, %h0; st.global.u32 [%d0+4], %r1;
    ld.param.v2.u32 {%r2, %r3}, [z+8]; st.global.v2.u32 [%d0+8], {%r2, %r3};
    ld.param.f64 %d1, [w]; st.global.f64 [%d0+16], %d1;""",
    )
    memory = Memory()
    out = memory.allocate(24)
    z = np.arange(4, dtype=np.uint32).tobytes()
    launch(
        parse_ptx(text),
        "k",
        grid=(1, 1, 1),
        block=(1, 1, 1),
        arguments=[out, 1.5, 200, z, 2.5],
        memory=memory,
    )
    got = memory.read(out, 24)
    assert got[:4].view(np.float32)[0] == 1.5
    assert got[4:16].view(np.uint32).tolist() == [200, 2, 3]
    assert got[16:].view(np.float64)[0] == 2.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arguments": []}, "0 arguments for 1 parameters"),
        ({"arguments": [b"123"]}, "argument of 3 bytes for k_p"),
        ({"block": (64, 1, 1)}, r"\.reqntid says \(32, 1, 1\)"),
        ({"grid": (0, 1, 1)}, "invalid launch"),
    ],
)
def test_launches_that_do_not_fit_are_refused(change: dict[str, object], message: str) -> None:
    text = HEADER + ".entry k(.param .u64 k_p)\n.reqntid 32, 1, 1\n{ ret; }"
    options: dict[str, object] = {
        "grid": (1, 1, 1),
        "block": (32, 1, 1),
        "arguments": [0],
        **change,
    }
    with pytest.raises(PtxFault, match=message):
        launch(parse_ptx(text), "k", memory=Memory(), **options)  # type: ignore[arg-type]


def test_local_arrays_from_llvm() -> None:
    """A table in local memory, indexed at run time: its depot, and %SP against %SPL."""
    ir = """
define ptx_kernel void @k(ptr addrspace(1) %out, i32 %i) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = alloca [8 x i32]
  br label %fill
fill:
  %j = phi i32 [0, %0], [%j1, %fill]
  %p = getelementptr i32, ptr %a, i32 %j
  %v = mul i32 %j, %t
  store volatile i32 %v, ptr %p
  %j1 = add i32 %j, 1
  %c = icmp ult i32 %j1, 8
  br i1 %c, label %fill, label %read
read:
  %q = getelementptr i32, ptr %a, i32 %i
  %r = load volatile i32, ptr %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""
    text = ptx_of(ir)
    assert ".local" in text
    (got,), _ = run(
        text, "k", [np.zeros(40, np.int32)], grid=(1, 1, 1), block=(40, 1, 1), scalars=[5]
    )
    np.testing.assert_array_equal(got, 5 * np.arange(40))


ATOMICS = {
    "add.u32": ("sum", np.uint32),
    "max.s32": ("max", np.int32),
    "min.s32": ("min", np.int32),
    "add.f32": ("sum", np.float32),
    "add.f64": ("sum", np.float64),
    "add.u64": ("sum", np.uint64),
}


@pytest.mark.parametrize("opcode", ATOMICS)
@pytest.mark.parametrize("form", ["atom", "red"])
def test_atomics_of_many_blocks_meet(opcode: str, form: str) -> None:
    method, dtype = ATOMICS[opcode]
    size = np.dtype(dtype).itemsize
    register = "%r" if size == 4 else "%d"
    old = f"{register}5, " if form == "atom" else ""
    text = kernel_text(
        ".param .u64 out, .param .u64 in",
        f"""
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 64, %r0;
    ld.param.u64 %d0, [in]; mad.wide.u32 %d0, %r0, {size}, %d0;
    ld.global.b{8 * size} {register}4, [%d0];
    ld.param.u64 %d1, [out]; and.b32 %r2, %r0, 1; mad.wide.u32 %d1, %r2, {size}, %d1;
    {form}.global.{opcode} {old}[%d1], {register}4;""",
    )
    data = np.random.default_rng(0).integers(0, 1000, 256).astype(dtype)
    out = np.array([500, 500], dtype)
    (got, _), _ = run(text, "k", [out, data], grid=(4, 1, 1), block=(64, 1, 1), initialised=True)
    for i in range(2):
        values = np.append(data[i::2], out[i])
        assert got[i] == getattr(values, method)()


def test_atomics_return_what_was_there_in_lane_order() -> None:
    text = kernel_text(
        ".param .u64 out, .param .u64 cell",
        """
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mad.wide.u32 %d0, %r0, 4, %d0;
    ld.param.u64 %d1, [cell]; atom.global.inc.u32 %r1, [%d1], 9; st.global.u32 [%d0], %r1;
    add.u32 %r3, %r0, 1; atom.global.cas.b32 %r2, [%d1+4], %r0, %r3;
    atom.global.exch.b32 %r4, [%d1+8], %r0;""",
    )
    out, cell = np.zeros(25, np.uint32), np.zeros(3, np.uint32)
    (got, cell), _ = run(text, "k", [out, cell], grid=(1, 1, 1), block=(25, 1, 1))
    np.testing.assert_array_equal(got, np.arange(25) % 10)
    assert cell.tolist() == [5, 25, 24]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_narrow_float_atomics(name: str) -> None:
    text = kernel_text(
        ".param .u64 out",
        f"""
    ld.param.u64 %d0, [out]; mov.b16 %h0, {"0x3C00" if name == "f16" else "0x3F80"};
    atom.global.add.noftz.{name} %h1, [%d0], %h0;
    mov.b32 %r0, {"0x3C003C00" if name == "f16" else "0x3F803F80"};
    red.global.add.noftz.{name}x2 [%d0+4], %r0;""",
    )
    out = np.zeros(4, np.uint16)
    (got,), _ = run(text, "k", [out], grid=(1, 1, 1), block=(8, 1, 1), initialised=True)
    eight = {"f16": 0x4800, "bf16": 0x4100}[name]
    assert got.tolist() == [eight, 0, eight, eight]


def test_unread_parts_of_a_vector_may_lie_behind_the_end() -> None:
    """Compilers widen loads to what shares the aligned bytes; what is read is checked as ever."""
    body = """
    ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in];
    ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d1]; st.global.u32 [%d0], {register};"""
    given, out = np.arange(3, dtype=np.uint32) + 7, np.zeros(1, np.uint32)
    text = kernel_text(".param .u64 out, .param .u64 in", body.format(register="%r2"))
    (got, _), _ = run(text, "k", [out, given], grid=(1, 1, 1), block=(1, 1, 1))
    assert got.tolist() == [9]
    text = kernel_text(".param .u64 out, .param .u64 in", body.format(register="%r3"))
    with pytest.raises(PtxFault, match="out of bounds"):
        run(text, "k", [out, given], grid=(1, 1, 1), block=(1, 1, 1))
    text = text.replace("[%d1]", "[%d1+4]").replace("[%d0], %r3", "[%d0], %r0")
    with pytest.raises(PtxFault, match="misaligned"):
        run(text, "k", [out, given], grid=(1, 1, 1), block=(1, 1, 1))
