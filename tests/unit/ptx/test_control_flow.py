"""Branches, loops, calls and warps that part and meet again."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.ptx import Memory, PtxFault, launch, parse_ptx
from tests.unit.ptx.ptx_running import HEADER, evaluate, kernel_text, ptx_of, run


def test_loops_of_different_length_meet_again() -> None:
    """Every lane counts down from its own number; a full-mask shuffle follows."""
    body = """
    mov.u32 %r0, %in0; mov.u32 %r1, 0;
LOOP:
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra DONE;
    add.u32 %r1, %r1, %r0;
    sub.u32 %r0, %r0, 1;
    bra LOOP;
DONE:
    shfl.sync.idx.b32 %r2, %r1, 31, 31, -1;
    add.u32 %out, %r1, %r2;
"""
    n = np.arange(64, dtype=np.uint32)
    got = evaluate(body, [n], "u4", block=64)
    sums = n * (n + 1) // 2
    np.testing.assert_array_equal(got, sums + sums.reshape(2, 32)[:, -1:].repeat(32, 1).reshape(-1))


def test_nested_divergence() -> None:
    body = """
    and.b32 %r0, %in0, 1; setp.eq.u32 %p0, %r0, 0; and.b32 %r1, %in0, 2; setp.eq.u32 %p1, %r1, 0;
    @%p0 bra EVEN;
    @%p1 bra A;
    mov.u32 %out, 1; bra END;
A:  mov.u32 %out, 2; bra END;
EVEN:
    @!%p1 bra B;
    mov.u32 %out, 3; bra END;
B:  mov.u32 %out, 4;
END:
    add.u32 %out, %out, 10;
"""
    n = np.arange(40, dtype=np.uint32)
    expected = np.select([n % 4 == 0, n % 4 == 1, n % 4 == 2], [13, 12, 14], 11)
    np.testing.assert_array_equal(evaluate(body, [n], "u4"), expected)


def test_jump_tables() -> None:
    body = """
    and.b32 %r0, %in0, 3;
    bra START;
TABLE: .branchtargets L0, L1, L2, L0;
START:
    brx.idx %r0, TABLE;
L0: mov.u32 %out, 100; bra END;
L1: mov.u32 %out, 101; bra END;
L2: mov.u32 %out, 102;
END:
"""
    n = np.arange(9, dtype=np.uint32)
    np.testing.assert_array_equal(evaluate(body, [n], "u4"), np.array([100, 101, 102, 100])[n & 3])


CALLS = f"""{HEADER}
.func (.param .b32 result) twice(.param .b32 x)
{{
    .reg .b32 %r<3>; .reg .pred %p<2>;
    ld.param.u32 %r1, [x];
    setp.gt.u32 %p1, %r1, 50;
    @%p1 bra BIG;
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
BIG:
    st.param.b32 [result], %r1;
    ret;
}}
.func (.param .b32 result) outer(.param .b32 x)
{{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [x];
    {{ .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r1;
    call.uni (q), twice, (p);
    ld.param.b32 %r2, [q]; }}
    {{ .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r2;
    call.uni (q), twice, (p);
    ld.param.b32 %r3, [q]; }}
    st.param.b32 [result], %r3;
    ret;
}}
.visible .entry k(.param .u64 out, .param .u64 in)
{{
    .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<2>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [in]; mad.wide.u32 %d1, %r1, 4, %d1; ld.global.u32 %r2, [%d1];
    and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0;
    @%p1 bra ONE;
    {{ .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r2;
    call.uni (q), outer, (p);
    ld.param.b32 %r4, [q]; }}
    bra JOIN;
ONE:
    {{ .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r2;
    call.uni (q), twice, (p);
    ld.param.b32 %r4, [q]; }}
JOIN:
    shfl.sync.bfly.b32 %r5, %r4, 0, 31, -1;
    ld.param.u64 %d2, [out]; mad.wide.u32 %d2, %r1, 4, %d2; st.global.u32 [%d2], %r5;
    ret;
}}
"""


def test_calls_from_diverged_lanes_and_out_of_functions() -> None:
    n = np.arange(64, dtype=np.uint32)
    (got, _), _ = run(CALLS, "k", [n, n], grid=(1, 1, 1), block=(64, 1, 1))
    twice = np.where(n > 50, n, 2 * n)
    expected = np.where(n % 2 == 0, twice, np.where(twice > 50, twice, 2 * twice))
    np.testing.assert_array_equal(got, expected)


def test_recursion_is_refused() -> None:
    text = CALLS.replace(
        "call.uni (q), twice, (p);\n    ld.param.b32 %r2",
        "call.uni (q), outer, (p);\n    ld.param.b32 %r2",
    )
    with pytest.raises(PtxFault, match="recursive call of outer"):
        run(text, "k", [np.zeros(4, np.uint32)] * 2, grid=(1, 1, 1))


def test_inner_scopes_have_names_of_their_own() -> None:
    """As inline assembly uses them, twice in one function."""
    piece = (
        "{ .reg .pred p; .reg .b32 t; setp.gt.u32 p, %in0, 3; mov.u32 t, 1;\n"
        "@!p bra L; add.u32 t, t, 10; L: add.u32 %out, %out, t; }"
    )
    n = np.arange(8, dtype=np.uint32)
    got = evaluate(f"mov.u32 %out, 0;\n{piece}\n{piece}", [n], "u4")
    np.testing.assert_array_equal(got, np.where(n > 3, 22, 2))


def test_an_endless_loop_meets_the_step_limit() -> None:
    text = kernel_text("", "L: add.u32 %r0, %r0, 1; bra L;")
    with pytest.raises(PtxFault, match="no end after 1000 steps"):
        launch(
            parse_ptx(text),
            "k",
            grid=(1, 1, 1),
            block=(32, 1, 1),
            arguments=[],
            memory=Memory(),
            step_limit=1000,
        )


def test_an_unknown_opcode_is_named_with_its_line() -> None:
    text = kernel_text("", "mov.u32 %r0, 1;\nfrobnicate.b32 %r1, %r0;")
    with pytest.raises(PtxFault, match=r"unknown opcode frobnicate\.b32") as caught:
        launch(parse_ptx(text), "k", grid=(1, 1, 1), block=(1, 1, 1), arguments=[], memory=Memory())
    assert text.splitlines()[caught.value.line - 1].startswith("frobnicate")


def test_a_thread_that_waits_for_another_lane_does_not_starve_it() -> None:
    """Lane 0 spins on a flag that lane 1 sets further down."""
    text = kernel_text(
        ".param .u64 flag",
        """
    ld.param.u64 %d0, [flag]; mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0;
    @%p0 bra SET;
SPIN: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    ret;
SET: st.volatile.global.u32 [%d0], 1;""",
    )
    (flag,), _ = run(
        text,
        "k",
        [np.zeros(1, np.uint32)],
        grid=(1, 1, 1),
        block=(2, 1, 1),
        initialised=True,
        step_limit=10**6,
    )
    assert flag[0] == 1


IR_LOOP = """
define ptx_kernel void @collatz(ptr addrspace(1) %out) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %start = add i32 %t, 1
  br label %loop
loop:
  %n = phi i32 [%start, %entry], [%next, %step]
  %count = phi i32 [0, %entry], [%more, %step]
  %done = icmp eq i32 %n, 1
  br i1 %done, label %end, label %step
step:
  %odd = and i32 %n, 1
  %is_odd = icmp ne i32 %odd, 0
  %triple = mul i32 %n, 3
  %up = add i32 %triple, 1
  %down = lshr i32 %n, 1
  %next = select i1 %is_odd, i32 %up, i32 %down
  %more = add i32 %count, 1
  br label %loop
end:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %count, ptr addrspace(1) %p
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""


def test_a_divergent_loop_from_llvm() -> None:
    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
        return count

    (got,), _ = run(ptx_of(IR_LOOP), "collatz", [np.zeros(100, np.int32)], block=(100, 1, 1))
    assert got.tolist() == [steps(n + 1) for n in range(100)]


@pytest.mark.parametrize(
    "instruction",
    [
        "add.u32 %r0, %r1;",
        "shfl.sync.idx.b32 %r0, %r1, 1;",
        "ld.global.b32 %r0, %r1;",
        "cp.async.wait_group %r0;",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r0}, {%r1}, {%r2}, {%r3};",
        "mov.b64 %r0, %d0;",
        "add.u32 %r0, %r1, nothing;",
        "bra nowhere;",
        "setp.lt.q32 %p0, %r0, %r1;",
    ],
)
def test_malformed_instructions_are_faults_of_the_text(instruction: str) -> None:
    text = kernel_text("", instruction)
    with pytest.raises(PtxFault) as caught:
        launch(
            parse_ptx(text), "k", grid=(1, 1, 1), block=(32, 1, 1), arguments=[], memory=Memory()
        )
    assert caught.value.text == instruction.rstrip(";")


@pytest.mark.parametrize("text", ["", ".entry k( { ret; }", ".entry k() { ret", "\x00", "€"])
def test_broken_texts_are_faults(text: str) -> None:
    with pytest.raises(PtxFault):
        launch(parse_ptx(text), "k", grid=(1, 1, 1), block=(1, 1, 1), arguments=[], memory=Memory())
