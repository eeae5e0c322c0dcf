"""Opcodes partitioned in ways of their own give what they give whole, and send little.

Each program runs in the evaluator and on the devices of one process, for tiles that divide evenly
and for tiles that do not.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.module import Module
from hloc.ir.sharded_signature import sharded_signature
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import verify
from hloc.runtime.shards import cut_all, join_all

REDUCERS = """
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE
}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}
"""


def partitioned(text: str) -> Module:
    """Return the program of each device, checked."""
    module = hloc.partition(text)
    verify(module)
    return module


def opcodes(module: Module) -> set[str]:
    return {i.opcode.name for i in all_instructions(module) if i.opcode.exchange is not None}


def check(text: str, *inputs: np.ndarray) -> Module:
    """Compare the parts, in the evaluator and compiled, with the whole; integers in floats."""
    module = partitioned(text)
    signature = sharded_signature(module)
    wanted = hloc.evaluate(hloc.parse(text), *inputs)
    found = join_all(evaluate_devices(module, cut_all(inputs, signature)), signature)
    ran = hloc.compile(module)(*inputs)
    compiled = ran if isinstance(ran, tuple | list) else (ran,)
    for of_parts, of_devices, whole in zip(found, compiled, wanted, strict=True):
        np.testing.assert_array_equal(of_parts, whole)
        np.testing.assert_array_equal(np.asarray(of_devices), whole)
    return module


def integers(*dims: int, seed: int = 0) -> np.ndarray:
    """Return small whole numbers in f32, which sum to the same in any order; many are equal."""
    return np.random.default_rng(seed).integers(-5, 6, dims).astype(np.float32)


# ---------------------------------------------------------------- select-and-scatter


def pooling_gradient(rows: int, size: int, stride: int, init: int = 0) -> str:
    windows = (rows - size) // stride + 1
    return f"""HloModule m, num_partitions=4
{REDUCERS}
ENTRY e {{
  x = f32[{rows},3] parameter(0), sharding={{devices=[4,1]<=[4]}}
  source = f32[{windows},3] parameter(1), sharding={{devices=[4,1]<=[4]}}
  init = f32[] constant({init})
  ROOT r = f32[{rows},3] select-and-scatter(x, source, init), window={{size={size}x1 stride={stride}x1}}, select=ge, scatter=add, sharding={{devices=[4,1]<=[4]}}
}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("rows", "size", "stride"),
    [(64, 2, 2), (64, 3, 2), (65, 3, 2), (63, 4, 1), (61, 5, 3), (50, 3, 3), (33, 7, 2)],
)
def test_gradient_of_a_pooling(rows: int, size: int, stride: int) -> None:
    windows = (rows - size) // stride + 1
    module = check(
        pooling_gradient(rows, size, stride), integers(rows, 3), integers(windows, 3, seed=1)
    )
    assert opcodes(module) <= {"collective-permute"}


def test_initial_value_of_a_select_and_scatter_counts_once() -> None:
    check(pooling_gradient(48, 3, 2, init=7), integers(48, 3), integers(23, 3, seed=1))


def test_windows_with_gaps_are_right() -> None:
    check(pooling_gradient(48, 2, 3), integers(48, 3), integers(16, 3, seed=1))


def test_windows_over_padding_are_right() -> None:
    text = pooling_gradient(47, 3, 2).replace("stride=2x1", "stride=2x1 pad=1_1x0_0")
    text = text.replace("f32[23,3]", "f32[24,3]")
    check(text, np.full((47, 3), -np.inf, np.float32), integers(24, 3))


# ---------------------------------------------------------------- scatters of split updates


def segments(rows: int, combiner: str, operand: str, result: str, more: str = "") -> str:
    return f"""HloModule m, num_partitions=4
{REDUCERS}
ENTRY e {{
  x = f32[8,5] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[8,5] broadcast(zero), dimensions={{}}
  ids = s32[{rows},1] parameter(1), sharding={{devices=[4,1]<=[4]}}
  updates = f32[{rows},5] parameter(2), sharding={{devices=[4,1]<=[4]}}
  ROOT r = f32[8,5] scatter({operand}, ids, updates), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1{more}, to_apply={combiner}, sharding={{{result}}}
}}
"""  # noqa: E501


def places(rows: int) -> np.ndarray:
    """Return indices, some of them outside of the operand."""
    return np.random.default_rng(2).integers(-2, 11, (rows, 1)).astype(np.int32)


@pytest.mark.parametrize("rows", [64, 61, 33])
@pytest.mark.parametrize("combiner", ["add", "max"])
@pytest.mark.parametrize("operand", ["x", "zeros"])
def test_scatter_of_split_updates(rows: int, combiner: str, operand: str) -> None:
    text = segments(rows, combiner, operand, "replicated")
    module = check(text, integers(8, 5, seed=3), places(rows), integers(rows, 5))
    assert opcodes(module) == {"all-reduce"}


def test_padding_of_unique_indices_is_no_update() -> None:
    text = segments(33, "add", "x", "replicated", ", unique_indices=true")
    ids = np.where(np.arange(33) < 8, np.arange(33), 100)[:, None].astype(np.int32)
    check(text, integers(8, 5, seed=3), ids, integers(33, 5))


def test_few_updates_are_gathered() -> None:
    module = check(segments(4, "add", "x", "replicated"), integers(8, 5), places(4), integers(4, 5))
    assert opcodes(module) == {"all-gather"}
