"""Factor rules: an instruction computed in parts along any of its factors is the instruction.

Each instruction is partitioned with its arrays split along one factor only. Factors that are not
reductions must not need any collective; that is what a factor claims.
"""

from __future__ import annotations

import pytest

import hloc
from hloc.driver import parse_text
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.sharded_signature import sharded_signature
from hloc.ir.sharding import LeafSharding
from hloc.ir.traversal import all_instructions
from hloc.ops.factors import factor_rule
from hloc.opt.pass_base import PassContext
from hloc.opt.spmd.spmd_partitioner import SpmdPartitioner
from hloc.opt.spmd.tiling import Mesh, Tiling
from hloc.runtime.shards import cut_all, join_all
from tests.inputs import inputs_for
from tests.tolerance import assert_close

INSTRUCTIONS = {
    "add": "f32[4,6] add(f32[4,6] %0, f32[4,6] %1)",
    "select": "f32[4,6] select(pred[4,6] %0, f32[4,6] %1, f32[4,6] %2)",
    "clamp": "f32[4,6] clamp(f32[] %0, f32[4,6] %1, f32[] %2)",
    "convert": "s32[4,6] convert(f32[4,6] %0)",
    "broadcast": "f32[4,8,6] broadcast(f32[4,6] %0), dimensions={0,2}",
    "transpose": "f32[6,4,2] transpose(f32[2,4,6] %0), dimensions={2,1,0}",
    "reshape-merge": "f32[24,2] reshape(f32[4,6,2] %0)",
    "reshape-split": "f32[4,6,2] reshape(f32[24,2] %0)",
    "reshape-one": "f32[1,24,1] reshape(f32[24] %0)",
    "reduce": "f32[6] reduce(f32[4,6] %0, f32[] constant(0)), dimensions={0}, to_apply=sum",
    "dot": "f32[4,8] dot(f32[4,6] %0, f32[6,8] %1), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
    "dot-batch": "f32[2,4,8] dot(f32[2,6,4] %0, f32[2,8,6] %1), lhs_batch_dims={0}, "
    "rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}",
    "convolution": "f32[2,8,4] convolution(f32[2,8,6] %0, f32[3,6,4] %1), "
    "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
    "gather": "f32[4,6] gather(f32[8,6] %0, s32[4,1] %1), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
    "gather-batch": "f32[4,6] gather(f32[4,8,6] %0, s32[4,1] %1), offset_dims={1}, "
    "collapsed_slice_dims={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
    "start_index_map={1}, index_vector_dim=1, slice_sizes={1,1,6}",
    "scatter": "f32[8,6] scatter(f32[8,6] %0, s32[4,1] %1, f32[4,6] %2), "
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=sum",
    "dynamic-slice": "f32[2,6] dynamic-slice(f32[4,6] %0, s32[] %1, s32[] %2), "
    "dynamic_slice_sizes={2,6}",
    "dynamic-update-slice": "f32[4,6] dynamic-update-slice(f32[4,6] %0, f32[2,6] %1, s32[] %2, "
    "s32[] %3)",
    "slice": "f32[2,6] slice(f32[4,6] %0), slice={[1:3], [0:6]}",
    "pad": "f32[7,6] pad(f32[4,6] %0, f32[] constant(0)), padding=1_2x0_0",
    "concatenate": "f32[8,6] concatenate(f32[4,6] %0, f32[4,6] %1), dimensions={0}",
    "reverse": "f32[4,6] reverse(f32[4,6] %0), dimensions={0}",
    "reduce-window": "f32[4,6] reduce-window(f32[4,6] %0, f32[] constant(0)), "
    "window={size=3x1 pad=1_1x0_0}, to_apply=sum",
    "sort": "f32[4,6] sort(f32[4,6] %0), dimensions={1}, to_apply=less",
    "iota": "s32[4,6] iota(), iota_dimension=1",
    "fft": "c64[4,6] fft(c64[4,6] %0), fft_type=FFT, fft_length={6}",
    "cholesky": "f32[4,3,3] cholesky(f32[4,3,3] %0), lower=true",
    "triangular-solve": "f32[4,3,6] triangular-solve(f32[4,3,3] %0, f32[4,3,6] %1), "
    "left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
}


def module_of(text: str, shardings: list[str], result: str) -> Module:
    """Return the module of one instruction, whose operands are written with their shapes."""
    head, _, rest = text.partition("(")
    operands, _, attributes = rest.partition(")")
    if "constant(0" in operands:
        operands, _, attributes = rest.partition("))")
        operands += ")"
    lines, names = [], []
    for operand in [o for o in operands.replace(", f32", "; f32").replace(", s32", "; s32")
                    .split("; ") if o]:  # fmt: skip
        shape, what = operand.split(" ")
        if what.startswith("constant"):
            lines.append(f"  zero = {shape} {what}")
            names.append("zero")
            continue
        number = what.removeprefix("%")
        sharding = shardings[int(number)] if shardings else "{replicated}"
        lines.append(f"  p{number} = {shape} parameter({number}), sharding={sharding}")
        names.append(f"p{number}")
    body = "\n".join(lines)
    return parse_text(f"""HloModule m, num_partitions=2

sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}}

ENTRY e {{
{body}
  ROOT r = {head}({", ".join(names)}){attributes}, sharding={result or "{replicated}"}
}}
""")


def along(factors: tuple[int, ...], factor: int) -> LeafSharding:
    """Return the sharding of an array that is split along one factor, if it has it."""
    return Tiling(Mesh((2,)), tuple((0,) if f == factor else () for f in factors)).sharding()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_parts_along_a_factor_make_the_whole(name: str) -> None:
    text = INSTRUCTIONS[name]
    root: Instruction = module_of(text, [], "").entry.root
    rule = factor_rule(root)
    assert rule.sizes, "at least one factor"
    for factor in range(len(rule.sizes)):
        shardings = [
            str(along(factors, factor))
            for factors, operand in zip(rule.operands, root.operands, strict=True)
            if operand.is_a("parameter")
        ]
        before = module_of(text, shardings, str(along(rule.results[0], factor)))
        module = module_of(text, shardings, str(along(rule.results[0], factor)))
        SpmdPartitioner().run(module, PassContext())
        exchanges = [i for i in all_instructions(module) if i.opcode.exchange is not None]
        assert bool(exchanges) == (factor in rule.reductions), (name, factor)
        inputs, signature = inputs_for(before), sharded_signature(module)
        (found,) = join_all(evaluate_devices(module, cut_all(inputs, signature)), signature)
        (wanted,) = hloc.evaluate(before, *inputs)
        assert found is not None
        assert_close(found, wanted, f"{name}, factor {factor}")
