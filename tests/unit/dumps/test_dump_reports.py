"""What single reports of XLA say: memory, times of passes; and what is told of small modules."""

import os
from pathlib import Path

from hloc import parse
from hloc.dumps.buffers import memory_of
from hloc.dumps.contents import custom_calls, loop_count, unrolled_loops
from hloc.dumps.examine import examine
from hloc.dumps.folder import DumpFile, read_folder
from hloc.dumps.pass_times import times_of_files, times_of_metadata
from hloc.dumps.recompiled import recompiled
from hloc.dumps.unfused import unfused

ASSIGNMENT = """BufferAssignment:
allocation 0: size 64, maybe-live-out:
 value: <3 add.1 @0> (size=64,offset=0): f32[16]{0}
allocation 1: size 128, parameter 0, shape |f32[32]| at ShapeIndex {}, maybe-live-out:
 value: <1 p @0> (size=128,offset=0): f32[32]{0}
allocation 2: size 40, preallocated-temp:
 value: <4 while.2{1} (phi) @0> (size=40,offset=0): f32[10]{0}
allocation 3: size 4, constant:
allocation 4: size 4, thread-local:
"""
LIVE = """HloLiveRange (max 3):
  Live ranges at 2 (peak):
    while.2{1}: 40 bytes (cumulative: 40 bytes)
    p{}: 128 bytes (cumulative: 168 bytes)
  Stack trace breakdown for peak usage: 168 bytes
"""
METADATA = """canonical_module_id: 1
pass_metadata {
  pass_id: 1
  pass_name: "simplification"
  pipeline_name: "optimization"
  start_timestamp_usec: 0
  end_timestamp_usec: 9000
}
pass_metadata {
  pass_name: "algsimp"
  pipeline_name: "simplification"
  dump_filenames: "a"
  start_timestamp_usec: 1000
  end_timestamp_usec: 3500
}
pass_metadata {
  pass_name: "algsimp"
  pipeline_name: "simplification"
  start_timestamp_usec: 4000
  end_timestamp_usec: 4500
}
pass_metadata {
  pass_name: "dce"
  pipeline_name: "simplification"
  start_timestamp_usec: 4500
"""


def test_memory_is_counted_by_what_it_is_for() -> None:
    found = memory_of(ASSIGNMENT, "Memory Space: default\nTotal bytes: 240 (240B)\n", LIVE)
    assert found is not None
    assert found.total_bytes == 240
    assert found.by_kind == {
        "parameters": 128, "outputs": 64, "temporary": 40, "constants": 4, "other": 4,
    }  # fmt: skip
    assert [(v.name, v.index, v.size_bytes) for v in found.at_peak] == [
        ("p", "", 128),
        ("while.2", "{1}", 40),
    ]
    assert found.peak_bytes == 168


def test_memory_without_live_ranges_lists_all_values() -> None:
    found = memory_of(ASSIGNMENT)
    assert found is not None
    assert (found.total_bytes, found.peak_bytes) == (240, None)
    assert [v.name for v in found.at_peak] == ["p", "add.1", "while.2"]
    assert memory_of("no such report") is None


def test_times_of_passes_leave_pipelines_and_broken_rows_out() -> None:
    (found,) = times_of_metadata(METADATA)
    assert (found.name, found.ms, found.runs) == ("simplification/algsimp", 3.0, 2)


def test_times_of_files_need_the_order_of_the_passes(tmp_path: Path) -> None:
    files = []
    for number, second in enumerate((1.0, 1.05, 3.05)):
        path = tmp_path / f"{number}"
        path.write_text("")
        os.utime(path, (second, second))
        files.append(DumpFile(str(path), number, "p", f"pass{number}"))
    (found,) = times_of_files(files)
    assert (found.name, round(found.ms)) == ("p/pass2", 2000)
    assert times_of_files(files[::-1]) == ()


def test_reasons_of_arrays_between_kernels() -> None:
    module = parse("""HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
double { x = f32[256,64] parameter(0)
  ROOT y = f32[256,64] add(x, x) }
ENTRY e {
  p = f32[256,64] parameter(0)
  w = f32[64,8] parameter(1)
  zero = f32[] constant(0)
  tanh = f32[256,64] tanh(p)
  fused = f32[256,64] fusion(tanh), kind=kLoop, calls=double
  exp = f32[256,64] exponential(p)
  dot = f32[256,8] dot(exp, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  neg = f32[256,8] negate(dot)
  sum = f32[256] reduce(fused, zero), dimensions={1}, to_apply=add
  sqrt = f32[256] sqrt(sum)
  ROOT t = (f32[256,8], f32[256]) tuple(neg, sqrt)
}""")
    found = {row.name: (row.why, row.fusible) for row in unfused(module)}
    assert found == {
        "tanh": ("hloc's rules would compute its tanh in what reads it", True),
        "fused": ("hloc's rules would compute its add in what reads it", True),
        "exp": ("a dot (dot) takes its operands from memory", False),
        "dot": ("a dot is a kernel of its own", False),
        "sum": (
            "a reduce ends a kernel: a result is known only after all its elements are read",
            False,
        ),
    }


def test_an_unrolled_loop_and_custom_calls_are_counted() -> None:
    rows = [f"  d{i} = f32[8,8] dot(p, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, "
            'metadata={source_file="net.py" source_line=7}' for i in range(9)]  # fmt: skip
    names = ", ".join(f"d{i}" for i in range(9))
    shape = ", ".join(["f32[8,8]"] * 9)
    call = f'  c = f32[] custom-call({names}), custom_call_target="join"'
    text = "\n".join(["HloModule m", "ENTRY e {", "  p = f32[8,8] parameter(0)", *rows, call])
    module = parse(f"{text}\n  ROOT t = ({shape}, f32[]) tuple({names}, c)\n}}")
    (row,) = unrolled_loops(module)
    assert (row.count, row.opcode, row.source) == (9, "dot", "net.py:7")
    assert custom_calls(module) == {"join": 1}
    assert loop_count(module) == 0


def test_recompilations_say_what_was_different() -> None:
    def module(size: int, value: float, opcode: str = "add") -> object:
        return parse(f"""HloModule m
ENTRY e {{
  p = f32[{size}] parameter(0)
  c = f32[] constant({value})
  b = f32[{size}] broadcast(c), dimensions={{}}
  ROOT r = f32[{size}] {opcode}(p, b)
}}""")

    cases = {
        "shapes": [(4, 1.0), (8, 1.0)],
        "constants": [(4, 1.0), (4, 2.0)],
        "shapes and constants": [(4, 1.0), (8, 2.0)],
        "nothing": [(4, 1.0), (4, 1.0)],
    }
    for word, pair in cases.items():
        named = [(f"module_{i}.m", module(*p)) for i, p in enumerate(pair)]
        (found,) = recompiled([*named, ("module_9.k", module(4, 1.0, "multiply"))])  # type: ignore[list-item]
        assert found.modules == ("module_0.m", "module_1.m")
        assert found.differs_in == word
        if word == "constants":
            assert found.values == ("1.0", "2.0")


def test_a_copy_is_traced_to_the_pass_that_made_it(tmp_path: Path) -> None:
    before = """HloModule m
ENTRY e {
  p = f32[4,8] parameter(0)
  t = f32[8,4] transpose(p), dimensions={1,0}
  ROOT r = f32[8,4] tanh(t)
}
"""
    copied = before.replace("ROOT r", "k = f32[8,4]{0,1} copy(t)\n  ROOT r").replace(
        "(t)\n}", "(k)\n}"
    )
    start = tmp_path / "module_0000.m"
    Path(f"{start}.before_optimizations.txt").write_text(before)
    Path(f"{start}.0000.layouts.after_layout-assignment.before_dce.txt").write_text(copied)
    Path(f"{start}.0001.layouts.after_dce.txt").write_text(
        copied.replace("k = ", "k.1 = ").replace("(k)", "(k.1)")
    )
    Path(f"{start}.cpu_after_optimizations.txt").write_text(copied)
    found = examine(read_folder(str(tmp_path)).modules[0]).findings
    (row,) = found.inserted
    assert (row.opcode, row.by) == ("copy", "layouts/layout-assignment")
    assert row.asked_by == ("r (tanh)",)
    assert row.why == "layout row-major becomes {0,1}"
    (change,) = found.passes
    assert (change.name, change.instructions) == ("layouts/layout-assignment", (3, 4))
