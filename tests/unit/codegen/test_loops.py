"""Loops of kernels: what they leave in the text."""

from __future__ import annotations

from hloc.codegen.builder.loops import Body, IndexValue
from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.llvm.target import host_target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import S64


def _text(start: IndexValue, stop: IndexValue) -> str:
    fn = FunctionWriter("f", ["ptr %p"])
    body = Body(fn, LlvmBuilder(fn, host_target()))
    with body.loop(start, stop) as outer, body.loop(0, 3) as inner:
        fn.line(f"store i64 {outer}, ptr %p ; {inner}")
    body.b.store(body.b.allocate(S64), 0, body.b.const(S64, 7))
    return fn.finish()


def test_a_loop_without_trips_leaves_no_code() -> None:
    for start, stop in ((4, 4), (5, 2)):
        text = _text(start, stop)
        assert "%p ;" not in text
        assert "br " not in text
        assert "store i64 7" in text


def test_a_loop_of_one_trip_has_no_branch_of_its_own() -> None:
    assert _text(4, 5).count(" = phi ") == 1
    assert _text(4, 6).count(" = phi ") == 2
