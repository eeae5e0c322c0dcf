"""The functions `@gpu.*` of chips with warpgroups: mbarriers, tile copies, wgmma.

They are written as PTX, since LLVM has no intrinsics for most of them. Source: PTX ISA, "mbarrier",
"cp.async.bulk.tensor" and "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

from hloc.codegen.gpu.helpers import WARPGROUP_HELPERS

# 384 threads start with 168 registers each; these numbers have the same total.
_PRODUCER_REGISTERS, _CONSUMER_REGISTERS = 40, 232

_PLAIN = {
    "phase.init": "mbarrier.init.shared::cta.b64 [$0], $1;",
    "phase.publish": "fence.proxy.async.shared::cta;",
    "phase.arrive": (
        "{ .reg .pred p; .reg .b64 t; setp.ne.b32 p, $1, 0;"
        " @p mbarrier.arrive.shared::cta.b64 t, [$0]; }"
    ),
    "phase.expect": "{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [$0], $1; }",
    "phase.wait": (
        "{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;"
        " @!p bra WAIT; }"
    ),
    "copy_tile.prepare": "prefetch.tensormap [$0];",
    "warpgroup.few_registers": f"setmaxnreg.dec.sync.aligned.u32 {_PRODUCER_REGISTERS};",
    "warpgroup.many_registers": f"setmaxnreg.inc.sync.aligned.u32 {_CONSUMER_REGISTERS};",
    "warpgroup.begin": "wgmma.fence.sync.aligned;",
    "warpgroup.commit": "wgmma.commit_group.sync.aligned;",
    "warpgroup.wait.1": "wgmma.wait_group.sync.aligned 1;",
}
_CONSTRAINTS = {"i32": "r", "i64": "l", "ptr": "l", "ptr addrspace(3)": "l"}


def definition(name: str) -> str:
    """Return the definition of one of `WARPGROUP_HELPERS`."""
    row = WARPGROUP_HELPERS[name]
    given = [f"{kind} %{number}" for number, kind in enumerate(row.arguments)]
    convergent = "" if row.scope == "thread" else " convergent"
    head = f"define internal {row.result} @gpu.{name}({', '.join(given)}) alwaysinline{convergent}"
    floats = row.arguments.count("float")
    others = [_CONSTRAINTS[kind] for kind in row.arguments[: len(row.arguments) - floats]]
    # Accumulators are tied operands: the instructions update them in place.
    outputs = ["=f"] * floats
    inputs = [*others, *map(str, range(floats))]
    constraints = ",".join([*outputs, *inputs, "~{memory}"])
    call = f'call {row.result} asm sideeffect "{_instruction(name)}", "{constraints}"'
    call += f"({', '.join(given)}){convergent}"
    if row.result == "void":
        body = [f"  {call}", "  ret void"]
    else:
        body = [f"  %r = {call}", f"  ret {row.result} %r"]
    return "\n".join([f"{head} {{", *body, "}"])


def _instruction(name: str) -> str:
    """Return the PTX of a helper, operands by number."""
    if name in _PLAIN:
        return _PLAIN[name]
    head, action, *rest = name.split(".")
    if head == "copy_tile":
        rank = int(action)
        places = ", ".join(f"${3 + i}" for i in range(rank))
        opcode = (
            f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        )
        return f"{opcode} [$0], [$2, {{{places}}}], [$1];"
    if action == "finish":
        return "wgmma.wait_group.sync.aligned 0;"
    kind, columns, order = rest
    count = int(columns) // 2
    sums = ", ".join(f"${i}" for i in range(count))
    turned = ", ".join(str(int(side == "l")) for side in order)
    opcode = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind}"
    product = f"{opcode} {{{sums}}}, ${count}, ${count + 1}, p, 1, 1, {turned};"
    return f"{{ .reg .pred p; setp.ne.b32 p, ${count + 2}, 0; {product} }}"
