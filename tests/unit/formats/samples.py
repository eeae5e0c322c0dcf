"""Modules that between them use every kind of attribute a message holds."""

from importlib.util import find_spec

import pytest


def has_package(name: str) -> bool:
    """Tell whether `name` can be imported, without importing it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


needs_protobuf = pytest.mark.skipif(not has_package("google.protobuf"), reason="needs protobuf")
needs_jaxlib = pytest.mark.skipif(not has_package("jaxlib"), reason="needs jaxlib")

REDUCER = """
add_c {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""

PLAIN = """HloModule plain

ENTRY main {
  x = f32[2,3] parameter(0)
  c = f32[2,3]{0,1} constant({{1, 2, 3}, {4, 5, nan}})
  ROOT sum = f32[2,3] add(x, c), metadata={op_type="add" op_name="jit(f)/add" source_line=7}
}
"""

STRUCTURE = (
    """HloModule structure, is_scheduled=true, input_output_alias={ {0}: (0, {}, must-alias) }

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}
2 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
"""
    + REDUCER
    + """
body {
  p = f32[8] parameter(0)
  ROOT twice = f32[8] add(p, p)
}

condition {
  p = f32[8] parameter(0)
  ROOT no = pred[] constant(false)
}

fused {
  p = f32[8] parameter(0)
  ROOT r = f32[8] negate(p)
}

ENTRY main {
  x = f32[8] parameter(0), parameter_replication={true}
  m = f32[8,4]{0,1:T(4,128)(2,1)S(5)} parameter(1)
  zero = f32[] constant(-0.0)
  loop = f32[8] while(x), condition=condition, body=body
  f = f32[8] fusion(loop), kind=kLoop, calls=fused, control-predecessors={zero}
  r = f32[8] reduce(m, zero), dimensions={1}, to_apply=add_c, metadata={stack_frame_id=2}
  w = f32[7] reduce-window(f, zero), window={size=2}, to_apply=add_c
  g = f32[8] all-reduce(r), replica_groups=[1,2]<=[2], channel_id=1, to_apply=add_c
  s = ((f32[8]), f32[8], u32[]) negate-start(g)
  d = f32[8] negate-done(s)
  e = f32[8] exponential(d), result_accuracy={tolerance={atol=1,rtol=0.5,ulps=2}}
  t = f32[8] custom-call(e, m), custom_call_target="t", custom_call_has_side_effect=true,
    output_to_operand_aliasing={{}: (0, {})}, literal=s32[2]{0} {1, 2}, backend_config={"a": 1},
    operand_layout_constraints={f32[8], f32[8,4]{0,1:T(4,128)(2,1)S(5)}}
  u = f32[8] custom-call(t), custom_call_target="u", literal=(s32[2]{0}, f32[]) ( {1, 2}, 3 )
  ROOT out = (f32[8], f32[7]) tuple(u, w), frontend_attributes={k="v",j={"a":1}}
}
"""
)

DEVICES = """HloModule devices

ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  a = f32[8,4] negate(x), sharding={mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}
  b = f32[8,4] negate(a), sharding={mesh['x'=2,'y'=4], replicated}
  c = f32[8,4] negate(b), sharding={mesh['x'=2,'y'=4], manual}
  d = f32[8,4] negate(c), sharding={mesh['x'=2,'y'=4], unreduced}
  e = f32[8,4] negate(d), sharding={maximal_mesh[device_id=3]}
  f = f32[8,4] negate(e), sharding={mesh['x'=2,'y'=4,'z'=2], device_ids=([2,8]T(1,0)), [{'y':(1)2}, {}], replicated={'x'}, unreduced={'z'}, metadata={{op_name="a"}}}
  g = f32[8,4] negate(f), sharding={devices=[2,2]3,1,0,2}
  h = f32[8,4] negate(g), sharding={unknown shard_like 1}
  i = f32[8,4] negate(h), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate shard_as 3 metadata={op_name="b"}}
  j = f32[8,4] domain(i), domain={kind="sharding", entry={maximal device=1}, exit={replicated}}
  k = f32[16,4] all-gather(j), replica_groups=mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'x'}, dimensions={0}
  l = f32[8,4] collective-permute(j), source_target_pairs={{0,1},{1,0}}
  m = f32[8,4] all-to-all(l), replica_groups={{0,1},{2,3}}, dimensions={0}
  n = f32[8,4] negate(m), statistics={visualizing_index=1,stat-1=33,stat-2=44.5}
  o = f32[8,4] negate(n), origin={[synthetic_call]}
  ROOT t = (f32[8,4], f32[16,4]) tuple(o, k), sharding={{replicated}, {maximal device=2}}, origin={({"v1"}, {"v2" {1,0}})}
}
"""  # noqa: E501

LINEAR = """HloModule linear

ENTRY main {
  x = f32[8,4] parameter(0)
  w = f32[4,4] parameter(1)
  i = s32[2,1] parameter(2)
  d = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,highest}, algorithm=dot_bf16_bf16_f32
  s = f32[4,2] slice(d), slice={[0:8:2], [1:3]}
  p = f32[5,6] pad(s, f32[] constant(0)), padding=1_0x0_1_3
  v = f32[1,6,6,2] parameter(3)
  k = f32[3,3,2,4] parameter(4)
  y = f32[1,3,3,4] convolution(v, k), window={size=3x3 stride=2x2 pad=1_0x1_0 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f
  g = f32[2,4] gather(d, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
  h = f32[4,4] cholesky(w), lower=true
  q = f32[4,4] triangular-solve(w, h), left_side=true, lower=true, transpose_a=TRANSPOSE
  f = c64[4,3] fft(w), fft_type=RFFT, fft_length={4}
  c = pred[8,4] compare(d, x), direction=LE, type=TOTALORDER
  io = s32[3,4] iota(), iota_dimension=1
  tk = (f32[8,2], s32[8,2]) topk(x), k=2, largest=true
  rp = f32[8,4] reduce-precision(x), exponent_bits=5, mantissa_bits=10
  bn = f32[8,4] batch-norm-inference(x, f32[4] constant({1,2,3,4}), f32[4] constant({1,2,3,4}), f32[4] constant({1,2,3,4}), f32[4] constant({1,2,3,4})), epsilon=0.001, feature_index=1
  rb = (u64[2], u32[5]) rng-bit-generator(u64[2] constant({1, 2})), algorithm=rng_philox
  ROOT r = f32[32] reshape(rp)
}
"""  # noqa: E501

SAMPLES = {
    "plain": PLAIN, "structure": STRUCTURE, "devices": DEVICES, "linear": LINEAR,
}  # fmt: skip
