"""Bytes that collectives send, by the ring formulas: what the sharded benchmark compares."""

import pytest

from benchmarks.sharded.sent_bytes import module_sent_bytes

MODULE = """HloModule m, num_partitions=4

sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}

{more}

ENTRY e {{
  x = f32[8,4] parameter(0)
  ROOT r = {line}
}}
"""
GROUPS = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"
PAIRS = "channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (f"f32[8,4] all-reduce(x), {GROUPS}, to_apply=sum", 2 * 3 / 4 * 128),
        (f"f32[8,4] all-reduce(x), {PAIRS}, to_apply=sum", 128),
        (f"f32[32,4] all-gather(x), {GROUPS}, dimensions={{0}}", 3 / 4 * 4 * 128),
        (f"f32[2,4] reduce-scatter(x), {GROUPS}, dimensions={{0}}, to_apply=sum", 3 / 4 * 128),
        ("f32[8,4] all-to-all(x), replica_groups={}, channel_id=1, dimensions={1}", 3 / 4 * 128),
        (
            "f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{3,3}}",
            2 / 4 * 128,
        ),
        ("f32[8,4] negate(x)", 0),
    ],
)
def test_each_collective(line: str, wanted: float) -> None:
    assert module_sent_bytes(MODULE.format(line=line, more="")) == wanted


def test_a_loop_counts_as_often_as_it_runs() -> None:
    more = f"""
body {{
  s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[8,4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[8,4] all-reduce(v), {PAIRS}, to_apply=sum
  ROOT t = (s32[], f32[8,4]) tuple(j, w)
}}

condition {{
  s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT
}}
"""
    line = """f32[8,4] get-tuple-element(loop), index=1
  zero = s32[] constant(0)
  start = (s32[], f32[8,4]) tuple(zero, x)
  loop = (s32[], f32[8,4]) while(start), condition=condition, body=body"""
    lines = line.split("\n")
    text = MODULE.format(line=lines[0], more=more)
    text = text.replace(
        "  ROOT r = f32[8,4] get", "\n".join(lines[1:]) + "\n  ROOT r = f32[8,4] get"
    )
    assert module_sent_bytes(text) == 5 * 128
