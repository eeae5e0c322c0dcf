"""What lanes do together: shuffles, votes, reductions, barriers, matrix fragments."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tolerance import bounds
from tests.unit.ptx.ptx_running import Array, evaluate, kernel_text, run

LANES = np.arange(64, dtype=np.uint32)


def shuffled(mode: str, shift: int, clamp: int, values: Array) -> tuple[list[int], list[bool]]:
    """The pseudocode of shfl.sync in the PTX ISA, lane by lane."""
    mask, bound = clamp >> 8 & 31, clamp & 31
    found, flags = [], []
    for index in range(len(values)):
        lane, warp = index % 32, index // 32 * 32
        most, least = lane & mask | bound & ~mask & 31, lane & mask
        if mode == "up":
            j = lane - shift
            valid = j >= most
        elif mode == "down":
            j = lane + shift
            valid = j <= most
        elif mode == "bfly":
            j = lane ^ shift
            valid = j <= most
        else:
            j = least | shift & ~mask & 31
            valid = j <= most
        found.append(int(values[warp + (j if valid else lane)]))
        flags.append(valid)
    return found, flags


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("shift", [0, 1, 5, 16, 31])
@pytest.mark.parametrize("segment", [32, 8])
def test_shuffles(mode: str, shift: int, segment: int) -> None:
    clamp = (32 - segment) << 8 | (0 if mode == "up" else 31)
    body = (
        f"shfl.sync.{mode}.b32 %out|%p0, %in0, {shift}, {clamp}, -1; @%p0 add.u32 %out, %out, 1000;"
    )
    got = evaluate(body, [LANES * 3], "u4", block=64)
    found, flags = shuffled(mode, shift, clamp, LANES * 3)
    np.testing.assert_array_equal(got, np.array(found) + 1000 * np.array(flags))


def test_two_halves_of_a_warp_with_masks_of_their_own() -> None:
    body = """
    and.b32 %r0, %in0, 16; setp.eq.u32 %p0, %r0, 0;
    @%p0 bra LOW;
    shfl.sync.idx.b32 %out, %in0, 17, 31, 0xFFFF0000; bra END;
LOW: shfl.sync.idx.b32 %out, %in0, 3, 31, 0x0000FFFF;
END:
"""
    got = evaluate(body, [LANES], "u4", block=64)
    np.testing.assert_array_equal(got, LANES // 32 * 32 + np.where(LANES % 32 < 16, 3, 17))


def test_votes() -> None:
    body = """
    setp.gt.u32 %p0, %in0, 40;
    vote.sync.ballot.b32 %r0, %p0, -1; vote.sync.any.pred %p1, %p0, -1;
    vote.sync.all.pred %p2, !%p0, -1; vote.sync.uni.pred %p3, %p0, -1;
    selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; selp.u32 %r3, 4, 0, %p3;
    popc.b32 %r0, %r0; shl.b32 %out, %r0, 8; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3;
    or.b32 %out, %out, %r1;
"""
    got = evaluate(body, [LANES], "u4", block=64)
    assert set(got[:32].tolist()) == {2 | 4}
    assert set(got[32:].tolist()) == {23 << 8 | 1}


def test_matches() -> None:
    values = (LANES % 32) // 8
    got = evaluate("match.any.sync.b32 %out, %in0, -1;", [values.astype(np.uint32)], "u4", block=64)
    np.testing.assert_array_equal(got, 0xFF << 8 * values)
    body = "match.all.sync.b32 %out|%p0, %in0, -1; @%p0 xor.b32 %out, %out, 1;"
    got = evaluate(body, [(LANES // 32 * LANES).astype(np.uint32)], "u4", block=64)
    np.testing.assert_array_equal(got, np.where(LANES < 32, 0xFFFFFFFE, 0))


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
def test_reductions_of_a_warp(name: str) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 32, 64, dtype=np.uint32)
    functions = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and}
    functions |= {"or": np.bitwise_or, "xor": np.bitwise_xor}
    suffix = "u32" if name in ("add", "min", "max") else "b32"
    got = evaluate(f"redux.sync.{name}.{suffix} %out, %in0, -1;", [values], "u4", block=64)
    expected = functions[name].reduce(values.reshape(2, 32), axis=1, dtype=np.uint32)
    np.testing.assert_array_equal(got, expected.repeat(32))


def test_active_mask_and_election() -> None:
    body = "mov.u32 %out, 7; setp.gt.u32 %p0, %in0, 33; @%p0 activemask.b32 %out;"
    got = evaluate(body, [LANES], "u4", block=64)
    np.testing.assert_array_equal(got, np.where(LANES > 33, 0xFFFFFFFC, 7))
    got = evaluate("elect.sync %out|%p0, -1; @%p0 add.u32 %out, %out, 50;", [LANES], "u4", block=64)
    np.testing.assert_array_equal(got, np.where(LANES % 32 == 0, 50, 0))


def test_reducing_barrier() -> None:
    body = """
    setp.gt.u32 %p0, %in0, 40; bar.red.popc.u32 %out, 0, %p0;
    bar.red.and.pred %p1, 0, %p0; @%p1 add.u32 %out, %out, 100;
    bar.red.or.pred %p1, 0, %p0; @%p1 add.u32 %out, %out, 1000;
"""
    assert set(evaluate(body, [LANES], "u4", block=64).tolist()) == {1023}


def test_named_barriers_of_some_warps() -> None:
    """Warp 0 arrives, warp 1 waits for it; warps 2 and 3 meet at another barrier."""
    body = """
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; ld.param.u64 %d0, [out];
    mov.u64 %d1, tile; mad.wide.u32 %d1, %r0, 4, %d1;
    setp.gt.u32 %p0, %r1, 1; @%p0 bra HIGH; setp.eq.u32 %p1, %r1, 1; @%p1 bra ONE;
    st.shared.u32 [%d1], %r0; bar.arrive 1, 64; ret;
ONE: bar.sync 1, 64; ld.shared.u32 %r2, [%d1+-128];
    mad.wide.u32 %d0, %r0, 4, %d0; st.global.u32 [%d0+-128], %r2; ret;
HIGH: st.shared.u32 [%d1], %r0; barrier.sync 2, 64; xor.b32 %r3, %r0, 32;
    mov.u64 %d1, tile; mad.wide.u32 %d1, %r3, 4, %d1; ld.shared.u32 %r2, [%d1];
    mad.wide.u32 %d0, %r0, 4, %d0; st.global.u32 [%d0+-128], %r2;
"""
    text = kernel_text(".param .u64 out", body, ".shared .align 4 .b8 tile[512];")
    (got,), _ = run(text, "k", [np.zeros(96, np.uint32)], grid=(1, 1, 1), block=(128, 1, 1))
    n = np.arange(64, 128)
    np.testing.assert_array_equal(got, np.concatenate([np.arange(32), n ^ 32]))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrix_loads_and_stores(count: int, transposed: bool) -> None:
    """Lane l gets of ldmatrix elements (l / 4, 2 * (l % 4)) and the next; stmatrix inverts it."""
    trans = ".trans" if transposed else ""
    registers = ", ".join(f"%r{10 + i}" for i in range(count))
    body = f"""
    mov.u32 %r0, %tid.x; ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
    mad.wide.u32 %d2, %r0, 16, %d0; ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%d2];
    mov.u64 %d3, tile; mad.wide.u32 %d3, %r0, 16, %d3;
    st.shared.v4.u32 [%d3], {{%r1, %r2, %r3, %r4}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%d3];
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%d3+512], {{{registers}}};
    bar.warp.sync -1;
    mad.wide.u32 %d4, %r0, 4, %d1;
    """
    body += "".join(f"st.global.u32 [%d4+{128 * i}], %r{10 + i};\n" for i in range(count))
    body += f"""
    setp.ge.u32 %p0, %r0, {8 * count}; @%p0 ret;
    ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%d3+512];
    mad.wide.u32 %d2, %r0, 16, %d1; st.global.v4.u32 [%d2+{128 * count}], {{%r1, %r2, %r3, %r4}};"""
    text = kernel_text(".param .u64 out, .param .u64 in", body, ".shared .align 16 .b8 tile[1024];")
    data = np.arange(256, dtype=np.uint16)
    out = np.zeros(count * 128, np.uint16)
    (got, _), _ = run(text, "k", [out, data], grid=(1, 1, 1), block=(32, 1, 1))
    matrices = data[: 64 * count].reshape(count, 8, 8)
    shown = matrices.transpose(0, 2, 1) if transposed else matrices
    np.testing.assert_array_equal(got[: 64 * count], shown.reshape(-1))
    np.testing.assert_array_equal(got[64 * count :], matrices.reshape(-1))


def fragment_kernel(opcode: str, sizes: tuple[int, int, int], wide: bool) -> str:
    """Load the registers of A, B and C as they are, multiply, store those of D."""
    register = "%d" if wide else "%r"
    size = 8 if wide else 4
    next_register, names, body = 10, [], "mov.u32 %r0, %tid.x;\n"
    for i, count in enumerate(sizes):
        own = [f"{register}{next_register + j}" for j in range(count)]
        next_register += count
        names.append(", ".join(own))
        body += f"ld.param.u64 %d0, [p{i}]; mad.wide.u32 %d0, %r0, {size * count}, %d0;\n"
        body += "".join(
            f"ld.global.b{8 * size} {n}, [%d0+{size * j}];\n" for j, n in enumerate(own)
        )
    body += f"{opcode} {{{names[2]}}}, {{{names[0]}}}, {{{names[1]}}}, {{{names[2]}}};\n"
    body += f"ld.param.u64 %d0, [out]; mad.wide.u32 %d0, %r0, {size * sizes[2]}, %d0;\n"
    body += "".join(
        f"st.global.b{8 * size} [%d0+{size * j}], {n};\n"
        for j, n in enumerate(names[2].split(", "))
    )
    return kernel_text(".param .u64 out, .param .u64 p0, .param .u64 p1, .param .u64 p2", body)


def place_in_a(i: int, lane: int, per: int) -> tuple[int, int]:
    """Row and column of element i of A, by the rules of the PTX ISA for m16."""
    register, part = divmod(i, per)
    return lane // 4 + 8 * (register & 1), lane % 4 * per + part + 4 * per * (register >> 1)


SHAPES = [  # opcode, depth, elements per register, element dtype, result dtype
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 2, "f2", "f4"),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, 2, "f2", "f4"),
    ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 2, "f2", "f2"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2, "bf16", "f4"),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 1, "f4", "f4"),
    ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, 1, "f4", "f4"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32, 4, "i1", "i4"),
    ("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32", 16, 4, "u1", "i4"),
]


@pytest.mark.parametrize(("opcode", "depth", "per", "element", "result"), SHAPES)
def test_products_of_fragments(
    opcode: str, depth: int, per: int, element: str, result: str
) -> None:
    rng = np.random.default_rng(0)
    low = 0 if element == "u1" else -4
    a, b = rng.integers(low, 5, (16, depth)), rng.integers(low, 5, (depth, 8))
    c = rng.integers(-4, 5, (16, 8))

    def stored(values: Array) -> Array:
        if element == "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(element)

    size_a, size_b = 16 * depth // 32, depth * 8 // 32
    lanes_a = [[a[place_in_a(i, lane, per)] for i in range(size_a)] for lane in range(32)]
    lanes_b = [
        [
            b[place_in_a(2 * (i // per) * per + i % per, lane, per)[1], lane // 4]
            for i in range(size_b)
        ]
        for lane in range(32)
    ]
    places = [
        [(lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2) for i in range(4)] for lane in range(32)
    ]
    lanes_c = np.array([[c[p] for p in row] for row in places]).astype(result)
    inputs = [stored(np.array(lanes_a)), stored(np.array(lanes_b)), lanes_c]
    buffers = [np.ascontiguousarray(v).view(np.uint32).reshape(-1) for v in inputs]
    counts = tuple(len(v) // 32 for v in buffers)
    text = fragment_kernel(opcode, (counts[0], counts[1], counts[2]), wide=False)
    (got, *_), _ = run(text, "k", [buffers[2].copy(), *buffers], grid=(1, 1, 1), block=(32, 1, 1))
    found = got.view(result).reshape(32, 4)
    expected = a @ b + c
    np.testing.assert_array_equal(found, [[expected[p] for p in row] for row in places])


def test_double_precision_product() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((8, 4)), rng.standard_normal((4, 8)), rng.standard_normal((8, 8))
    lanes = range(32)
    inputs = [
        np.array([a[lane // 4, lane % 4] for lane in lanes]),
        np.array([b[lane % 4, lane // 4] for lane in lanes]),
        np.array([c[lane // 4, lane % 4 * 2 + i] for lane in lanes for i in range(2)]),
    ]
    text = fragment_kernel("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", (1, 1, 2), wide=True)
    (got, *_), _ = run(text, "k", [inputs[2].copy(), *inputs], grid=(1, 1, 1), block=(32, 1, 1))
    expected = a @ b + c
    np.testing.assert_allclose(
        got,
        [expected[lane // 4, lane % 4 * 2 + i] for lane in lanes for i in range(2)],
        **bounds("f64 special"),
    )
