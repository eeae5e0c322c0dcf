"""Devices in different branches of a conditional still meet after all passes: none is dropped.

In each program one device takes `left`, the other `right`, and both come to one all-reduce. What a
pass may remove, because nobody uses it, would leave the other device waiting.
"""

import numpy as np
import pytest

import hloc
from hloc.evaluator.devices import evaluate_devices
from hloc.opt.pipelines import pipeline_for

SUM = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add"

ADD = """HloModule m, num_partitions=2

add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT s = s32[] add(a, b) }
"""

PROGRAMS = {
    "a result that nobody uses": f"""{ADD}
left {{ x = s32[4] parameter(0)
  sum = s32[4] all-reduce(x), {SUM}
  ROOT t = (s32[4], s32[4]) tuple(sum, x) }}
right {{ x = s32[4] parameter(0)
  sum = s32[4] all-reduce(x), {SUM}
  ROOT t = (s32[4], s32[4]) tuple(x, sum) }}
ENTRY e {{ x = s32[4] parameter(0) p = pred[] parameter(1)
  c = (s32[4], s32[4]) conditional(p, x, x), true_computation=left, false_computation=right
  ROOT r = s32[4] get-tuple-element(c), index=1 }}
""",
    "a product with zero": f"""{ADD}
left {{ x = s32[4] parameter(0)
  sum = s32[4] all-reduce(x), {SUM}
  zero = s32[] constant(0)
  zeros = s32[4] broadcast(zero), dimensions={{}}
  ROOT t = s32[4] multiply(sum, zeros) }}
right {{ x = s32[4] parameter(0)
  ROOT sum = s32[4] all-reduce(x), {SUM} }}
ENTRY e {{ x = s32[4] parameter(0) p = pred[] parameter(1)
  ROOT c = s32[4] conditional(p, x, x), true_computation=left, false_computation=right }}
""",
    "a loop that ends by its data": f"""{ADD}
more {{ s = (s32[], s32[4], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[4] get-tuple-element(s), index=1
  first = s32[1] slice(x), slice={{[0:1]}}
  limit = s32[] reshape(first)
  ROOT c = pred[] compare(i, limit), direction=LT }}
body {{ s = (s32[], s32[4], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[4] get-tuple-element(s), index=1
  y = s32[4] get-tuple-element(s), index=2
  sum = s32[4] all-reduce(y), {SUM}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], s32[4], s32[4]) tuple(j, x, sum) }}
ENTRY e {{ x = s32[4] parameter(0) p = pred[] parameter(1)
  four = s32[4] constant({{4, 4, 4, 4}})
  zero = s32[] constant(0)
  s = (s32[], s32[4], s32[4]) tuple(zero, x, x)
  w = (s32[], s32[4], s32[4]) while(s), condition=more, body=body
  i = s32[] get-tuple-element(w), index=0
  t = (s32[], s32[4], s32[4]) tuple(i, four, x)
  v = (s32[], s32[4], s32[4]) while(t), condition=more, body=body
  ROOT r = s32[4] get-tuple-element(v), index=2 }}
""",
}


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_all_passes_keep_each_rendezvous(text: str, level: int) -> None:
    arguments = [[np.array([0, 1, 2, 3], np.int32), np.array([4, 5, 6, 7], np.int32)]]
    arguments.append([np.array(True), np.array(False)])
    expected = evaluate_devices(hloc.parse(text), arguments)
    module = hloc.parse(text)
    pipeline_for(level).run(module)
    for found in (
        evaluate_devices(module, arguments),
        hloc.compile(text).run_devices(arguments),
    ):
        np.testing.assert_array_equal(np.array(found), np.array(expected))
