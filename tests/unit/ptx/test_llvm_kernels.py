"""Whole kernels, written as LLVM IR, compiled by LLVM's NVPTX backend, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tolerance import bounds
from tests.unit.ptx.ptx_running import ptx_of, run

DECLARATIONS = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.sqrt.f32(float)
declare i32 @llvm.umin.i32(i32, i32)
"""
IN = "ptr addrspace(1) noalias readonly align 16"
OUT = "ptr addrspace(1) noalias align 16"
INDEX = """
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
"""


def elementwise(type_name: str, count: int) -> str:
    """Return out = sqrt(x * x + y), four elements a thread, with a guard at the end."""
    widen = type_name != "float"
    body = ""
    for i in range(4):
        names = []
        for v in "xy":
            body += f"  %{v}e{i} = extractelement <4 x {type_name}> %{v}v, i32 {i}\n"
            if widen:
                body += f"  %{v}w{i} = fpext {type_name} %{v}e{i} to float\n"
            names.append(f"%{v}{'w' if widen else 'e'}{i}")
        x, y = names
        body += f"  %f{i} = call float @llvm.fma.f32(float {x}, float {x}, float {y})\n"
        body += f"  %s{i} = call float @llvm.sqrt.f32(float %f{i})\n"
        if widen:
            body += f"  %n{i} = fptrunc float %s{i} to {type_name}\n"
        result = f"%n{i}" if widen else f"%s{i}"
        before = f"%v{i - 1}" if i else "undef"
        body += (
            f"  %v{i} = insertelement <4 x {type_name}> {before}, {type_name} {result}, i32 {i}\n"
        )
    size = 8 if widen else 16
    return f"""
define ptx_kernel void @k({OUT} %out, {IN} %x, {IN} %y) {{
{INDEX}
  %base = mul i32 %b, 128
  %thread = add i32 %base, %t
  %i = mul i32 %thread, 4
  %inside = icmp ult i32 %i, {count}
  br i1 %inside, label %go, label %end
go:
  %px = getelementptr {type_name}, ptr addrspace(1) %x, i32 %i
  %py = getelementptr {type_name}, ptr addrspace(1) %y, i32 %i
  %po = getelementptr {type_name}, ptr addrspace(1) %out, i32 %i
  %xv = load <4 x {type_name}>, ptr addrspace(1) %px, align {size}
  %yv = load <4 x {type_name}>, ptr addrspace(1) %py, align {size}
{body}
  store <4 x {type_name}> %v3, ptr addrspace(1) %po, align {size}
  br label %end
end:
  ret void
}}
{DECLARATIONS}"""


@pytest.mark.parametrize("cpu", ["sm_75", "sm_80", "sm_90"])
def test_elementwise_f32(cpu: str) -> None:
    x, y = np.random.default_rng(0).uniform(0, 9, (2, 1200)).astype(np.float32)
    (got, *_), report = run(
        ptx_of(elementwise("float", 1200), cpu), "k", [x, x, y], grid=(3, 1, 1), metrics=True
    )
    exact = np.float64(x) * x + y
    np.testing.assert_array_equal(got, np.sqrt(exact.astype(np.float32)))
    assert report.global_bytes == 3 * 4 * 1200
    assert report.global_sectors == 3 * 4 * 1200 // 32
    assert report.sector_efficiency == 1.0


@pytest.mark.parametrize("cpu", ["sm_75", "sm_80", "sm_90"])
def test_elementwise_bf16(cpu: str) -> None:
    x, y = np.random.default_rng(0).uniform(0, 9, (2, 1024)).astype(np.float32)
    x, y = ((v.view(np.uint32) & 0xFFFF0000).view(np.float32) for v in (x, y))
    narrow = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in (x, y)]
    (got, *_), _ = run(
        ptx_of(elementwise("bfloat", 1024), cpu), "k", [narrow[0], *narrow], grid=(2, 1, 1)
    )
    found = (got.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(found, np.sqrt(np.float64(x) * x + y), **bounds("bf16 one rounding"))


def row_sums(columns: int) -> str:
    """One block of 128 threads a row: shuffles, then shared memory, then the first warp."""

    def shuffles(value: str, prefix: str) -> tuple[str, str]:
        text = ""
        for offset in (16, 8, 4, 2, 1):
            shuffle = "call float @llvm.nvvm.shfl.sync.bfly.f32"
            text += (
                f"  %{prefix}{offset} = {shuffle}(i32 -1, float {value}, i32 {offset}, i32 31)\n"
            )
            text += f"  %{prefix}s{offset} = fadd float {value}, %{prefix}{offset}\n"
            value = f"%{prefix}s{offset}"
        return text, value

    first, inner = shuffles("%acc", "a")
    second, total = shuffles("%mine", "b")
    return f"""
@partial = internal addrspace(3) global [4 x float] undef, align 16
define ptx_kernel void @k({OUT} %out, {IN} %x) "nvvm.reqntid"="128" {{
entry:
{INDEX}
  %row = mul i32 %b, {columns}
  br label %loop
loop:
  %i = phi i32 [%t, %entry], [%next, %add]
  %acc = phi float [0.0, %entry], [%sum, %add]
  %more = icmp ult i32 %i, {columns}
  br i1 %more, label %add, label %reduce
add:
  %at = add i32 %row, %i
  %p = getelementptr float, ptr addrspace(1) %x, i32 %at
  %v = load float, ptr addrspace(1) %p
  %sum = fadd float %acc, %v
  %next = add i32 %i, 128
  br label %loop
reduce:
{first}
  %warp = lshr i32 %t, 5
  %lane = and i32 %t, 31
  %leader = icmp eq i32 %lane, 0
  br i1 %leader, label %put, label %meet
put:
  %q = getelementptr float, ptr addrspace(3) @partial, i32 %warp
  store float {inner}, ptr addrspace(3) %q
  br label %meet
meet:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %is_first = icmp ult i32 %t, 32
  br i1 %is_first, label %last, label %end
last:
  %slot = call i32 @llvm.umin.i32(i32 %t, i32 3)
  %r = getelementptr float, ptr addrspace(3) @partial, i32 %slot
  %held = load float, ptr addrspace(3) %r
  %used = icmp ult i32 %t, 4
  %mine = select i1 %used, float %held, float 0.0
{second}
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %write, label %end
write:
  %o = getelementptr float, ptr addrspace(1) %out, i32 %b
  store float {total}, ptr addrspace(1) %o
  br label %end
end:
  ret void
}}
{DECLARATIONS}"""


@pytest.mark.parametrize("columns", [1, 100, 1000])
def test_row_sums(columns: int) -> None:
    x = np.random.default_rng(0).standard_normal((20, columns)).astype(np.float32)
    out = np.zeros(20, np.float32)
    (got, _), _ = run(ptx_of(row_sums(columns)), "k", [out, x], grid=(20, 1, 1))
    np.testing.assert_allclose(got, x.sum(axis=1), **bounds("f32 sum near 1"))


def transpose(rows: int, columns: int, pitch: int) -> str:
    body = ""
    for i in range(8):
        body += f"""
  %r{i} = add i32 %warp, {4 * i}
  %gr{i} = add i32 %row, %r{i}
  %go{i} = mul i32 %gr{i}, {columns}
  %gc{i} = add i32 %column, %lane
  %g{i} = add i32 %go{i}, %gc{i}
  %gp{i} = getelementptr float, ptr addrspace(1) %x, i32 %g{i}
  %v{i} = load float, ptr addrspace(1) %gp{i}
  %so{i} = mul i32 %r{i}, {pitch}
  %s{i} = add i32 %so{i}, %lane
  %sp{i} = getelementptr float, ptr addrspace(3) @tile, i32 %s{i}
  store float %v{i}, ptr addrspace(3) %sp{i}"""
    body += "\n  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
    for i in range(8):
        body += f"""
  %to{i} = mul i32 %lane, {pitch}
  %t{i} = add i32 %to{i}, %r{i}
  %tp{i} = getelementptr float, ptr addrspace(3) @tile, i32 %t{i}
  %w{i} = load float, ptr addrspace(3) %tp{i}
  %or{i} = add i32 %column, %r{i}
  %oo{i} = mul i32 %or{i}, {rows}
  %oc{i} = add i32 %row, %lane
  %o{i} = add i32 %oo{i}, %oc{i}
  %op{i} = getelementptr float, ptr addrspace(1) %out, i32 %o{i}
  store float %w{i}, ptr addrspace(1) %op{i}"""
    return f"""
@tile = internal addrspace(3) global [32 x [{pitch} x float]] undef, align 16
define ptx_kernel void @k({OUT} %out, {IN} %x) "nvvm.reqntid"="128" {{
{INDEX}
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %lane = and i32 %t, 31
  %warp = lshr i32 %t, 5
  %column = mul i32 %b, 32
  %row = mul i32 %c, 32
{body}
  ret void
}}
{DECLARATIONS}"""


@pytest.mark.parametrize(("pitch", "ratio"), [(33, 1.0), (32, 16.5)])
def test_transpose_and_its_bank_conflicts(pitch: int, ratio: float) -> None:
    """A pitch of 32 words puts a column into one bank: 32 passes for each read."""
    x = np.random.default_rng(0).standard_normal((96, 64)).astype(np.float32)
    (got, _), report = run(
        ptx_of(transpose(96, 64, pitch)), "k", [x.T.copy(), x], grid=(2, 3, 1), metrics=True
    )
    np.testing.assert_array_equal(got, x.T)
    assert report.bank_conflict_ratio == ratio
    assert report.opcodes["bar.sync"] == x.size // 32 * 4


def sgemm(n: int, k: int) -> str:
    """A tile of 16 by 16 per block, one element a thread, the depth in steps of 16."""
    inner = ""
    for i in range(16):
        before = "%acc" if i == 0 else f"%f{i - 1}"
        inner += f"""
  %ai{i} = add i32 %a_row, {i}
  %pa{i} = getelementptr float, ptr addrspace(3) @sa, i32 %ai{i}
  %va{i} = load float, ptr addrspace(3) %pa{i}
  %bi{i} = add i32 %tx, {16 * i}
  %pb{i} = getelementptr float, ptr addrspace(3) @sb, i32 %bi{i}
  %vb{i} = load float, ptr addrspace(3) %pb{i}
  %f{i} = call float @llvm.fma.f32(float %va{i}, float %vb{i}, float {before})"""
    return f"""
@sa = internal addrspace(3) global [256 x float] undef, align 16
@sb = internal addrspace(3) global [256 x float] undef, align 16
define ptx_kernel void @k({OUT} %out, {IN} %a, {IN} %bm) "nvvm.reqntid"="256" {{
entry:
{INDEX}
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %tx = and i32 %t, 15
  %ty = lshr i32 %t, 4
  %row0 = mul i32 %by, 16
  %row = add i32 %row0, %ty
  %column0 = mul i32 %b, 16
  %column = add i32 %column0, %tx
  %a_row = mul i32 %ty, 16
  br label %loop
loop:
  %d = phi i32 [0, %entry], [%d1, %loop]
  %acc = phi float [0.0, %entry], [%f15, %loop]
  %ga0 = mul i32 %row, {k}
  %ga1 = add i32 %ga0, %d
  %ga = add i32 %ga1, %tx
  %pga = getelementptr float, ptr addrspace(1) %a, i32 %ga
  %vga = load float, ptr addrspace(1) %pga
  %gb0 = add i32 %d, %ty
  %gb1 = mul i32 %gb0, {n}
  %gb = add i32 %gb1, %column
  %pgb = getelementptr float, ptr addrspace(1) %bm, i32 %gb
  %vgb = load float, ptr addrspace(1) %pgb
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %psa = getelementptr float, ptr addrspace(3) @sa, i32 %t
  store float %vga, ptr addrspace(3) %psa
  %psb = getelementptr float, ptr addrspace(3) @sb, i32 %t
  store float %vgb, ptr addrspace(3) %psb
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
{inner}
  %d1 = add i32 %d, 16
  %more = icmp ult i32 %d1, {k}
  br i1 %more, label %loop, label %end
end:
  %o0 = mul i32 %row, {n}
  %o = add i32 %o0, %column
  %po = getelementptr float, ptr addrspace(1) %out, i32 %o
  store float %f15, ptr addrspace(1) %po
  ret void
}}
{DECLARATIONS}"""


def test_matrix_product_through_shared_memory() -> None:
    rng = np.random.default_rng(0)
    a, b = (
        rng.standard_normal((48, 64)).astype(np.float32),
        rng.standard_normal((64, 32)).astype(np.float32),
    )
    out = np.zeros((48, 32), np.float32)
    (got, *_), _ = run(ptx_of(sgemm(32, 64)), "k", [out, a, b], grid=(2, 3, 1), block=(256, 1, 1))
    np.testing.assert_allclose(got, a @ b, **bounds("f32 sum near 1"))


def tensor_gemm(n: int, k: int, wait: int = 1) -> str:
    """A warp per 16x8 tile; depth in steps of 16 through two buffers filled by cp.async."""
    load = """
  %{p}ak = add i32 %ga, {depth}
  %{p}ap = getelementptr bfloat, ptr addrspace(1) %a, i32 %{p}ak
  %{p}ao = add i32 {buffer}, %sa
  %{p}as = getelementptr i8, ptr addrspace(3) @tile, i32 %{p}ao
  call void @llvm.nvvm.cp.async.cg.shared.global.16(
    ptr addrspace(3) %{p}as, ptr addrspace(1) %{p}ap)
  br i1 %low, label %{p}b, label %{p}c
{p}b:
  %{p}bk = add i32 {depth}, %t
  %{p}bm = mul i32 %{p}bk, NNN
  %{p}bi = add i32 %{p}bm, %column
  %{p}bp = getelementptr bfloat, ptr addrspace(1) %bm, i32 %{p}bi
  %{p}bo = add i32 {buffer}, %sb
  %{p}bs = getelementptr i8, ptr addrspace(3) @tile, i32 %{p}bo
  call void @llvm.nvvm.cp.async.cg.shared.global.16(
    ptr addrspace(3) %{p}bs, ptr addrspace(1) %{p}bp)
  br label %{p}c
{p}c:
  call void @llvm.nvvm.cp.async.commit.group()""".replace("NNN", str(n))
    accumulators = "".join(
        f"  %acc{i} = phi float [0.0, %firstc], [%d{i}, %go]\n" for i in range(4)
    )
    results = "".join(
        f"  %d{i} = extractvalue {{float,float,float,float}} %d, {i}\n" for i in range(4)
    )
    registers = "".join(f"  %a{i} = extractvalue {{i32,i32,i32,i32}} %av, {i}\n" for i in range(4))
    stores = "".join(
        f"""
  %or{i} = add i32 %orow, {8 * (i // 2)}
  %om{i} = mul i32 %or{i}, {n}
  %oc{i} = add i32 %om{i}, %ocolumn
  %oi{i} = add i32 %oc{i}, {i % 2}
  %op{i} = getelementptr float, ptr addrspace(1) %out, i32 %oi{i}
  store float %d{i}, ptr addrspace(1) %op{i}"""
        for i in range(4)
    )
    return f"""
@tile = internal addrspace(3) global [1536 x i8] undef, align 128
define ptx_kernel void @k({OUT} %out, {IN} %a, {IN} %bm) "nvvm.reqntid"="32" {{
entry:
{INDEX}
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %row = mul i32 %by, 16
  %column = mul i32 %b, 8
  %half = lshr i32 %t, 1
  %odd = and i32 %t, 1
  %chunk = shl i32 %odd, 3
  %arow = add i32 %row, %half
  %ga0 = mul i32 %arow, {k}
  %ga = add i32 %ga0, %chunk
  %sa = shl i32 %t, 4
  %sb = add i32 %sa, 512
  %low = icmp ult i32 %t, 16
{load.format(p="first", depth="0", buffer="0")}
  %l15 = and i32 %t, 15
  %l16 = lshr i32 %t, 4
  %fa0 = shl i32 %l15, 5
  %fa1 = shl i32 %l16, 4
  %fa = add i32 %fa0, %fa1
  %fb0 = shl i32 %l15, 4
  %fb = add i32 %fb0, 512
  br label %loop
loop:
  %depth = phi i32 [0, %firstc], [%next, %go]
  %buffer = phi i32 [0, %firstc], [%other, %go]
{accumulators}
  %other = sub i32 768, %buffer
  %next = add i32 %depth, 16
  %more = icmp ult i32 %next, {k}
  br i1 %more, label %ahead, label %none
ahead:
{load.format(p="then", depth="%next", buffer="%other")}
  br label %go
none:
  call void @llvm.nvvm.cp.async.commit.group()
  br label %go
go:
  call void @llvm.nvvm.cp.async.wait.group(i32 {wait})
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %ra = add i32 %buffer, %fa
  %pa = getelementptr i8, ptr addrspace(3) @tile, i32 %ra
  %av = call {{i32,i32,i32,i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(
    ptr addrspace(3) %pa)
{registers}
  %rb = add i32 %buffer, %fb
  %pb = getelementptr i8, ptr addrspace(3) @tile, i32 %rb
  %bv = call {{i32,i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3) %pb)
  %b0 = extractvalue {{i32,i32}} %bv, 0
  %b1 = extractvalue {{i32,i32}} %bv, 1
  %d = call {{float,float,float,float}} @llvm.nvvm.mma.m16n8k16.row.col.bf16(
    i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1,
    float %acc0, float %acc1, float %acc2, float %acc3)
{results}
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  br i1 %more, label %loop, label %end
end:
  %quad = lshr i32 %t, 2
  %place = and i32 %t, 3
  %orow = add i32 %row, %quad
  %pair = shl i32 %place, 1
  %ocolumn = add i32 %column, %pair
{stores}
  ret void
}}
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare {{i32,i32,i32,i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare {{i32,i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3))
declare {{float,float,float,float}} @llvm.nvvm.mma.m16n8k16.row.col.bf16(
  i32, i32, i32, i32, i32, i32, float, float, float, float)
{DECLARATIONS}"""


def test_tensor_core_product_with_asynchronous_copies() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 9, (32, 64)), rng.integers(-8, 9, (64, 16))
    narrow = [(v.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for v in (a, b)]
    out = np.zeros((32, 16), np.float32)
    text = ptx_of(tensor_gemm(16, 64))
    assert "mma.sync.aligned.m16n8k16" in text
    (got, *_), _ = run(text, "k", [out, *narrow], grid=(2, 2, 1), block=(32, 1, 1))
    np.testing.assert_array_equal(got, a @ b)
