"""The functions `@gpu.*` of chips with warpgroups: mbarriers, tile copies, wgmma.

They are written as PTX, since LLVM has no intrinsics for most of them. Source: PTX ISA, "mbarrier",
"cp.async.bulk.tensor" and "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

from hloc.codegen.gpu.helpers import WARPGROUP_HELPERS, WARPGROUP_KINDS, Helper

# 384 threads start with 168 registers each; these pairs of numbers have the same total.
_REGISTERS = {"": (24, 240), ".transposing": (56, 224)}
"""Of a producer and of a consumer, by what the producer does beside copying."""


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
    "permute_bytes": "prmt.b32 $0, $1, $2, $3;",
    "store_matrix.x4": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};",
    **{
        f"warpgroup.few_registers{role}": f"setmaxnreg.dec.sync.aligned.u32 {few};"
        for role, (few, _) in _REGISTERS.items()
    },
    **{
        f"warpgroup.many_registers{role}": f"setmaxnreg.inc.sync.aligned.u32 {many};"
        for role, (_, many) in _REGISTERS.items()
    },
    "warpgroup.anchor": "mov.b64 $0, $1;",
    "warpgroup.begin": "wgmma.fence.sync.aligned;",
    "warpgroup.commit": "wgmma.commit_group.sync.aligned;",
    "warpgroup.wait.1": "wgmma.wait_group.sync.aligned 1;",
}
_CONSTRAINTS = {"i32": "r", "i64": "l", "float": "f", "ptr": "l", "ptr addrspace(3)": "l"}
_DEPTHS = {"bf16": 16, "f16": 16, "tf32": 8}
"""Depth of an instruction by the type of its factors, 32 for bytes."""


def definition(name: str) -> str:
    """Return the definition of one of `WARPGROUP_HELPERS`."""
    row = WARPGROUP_HELPERS[name]
    given = [f"{kind} %{number}" for number, kind in enumerate(row.arguments)]
    convergent = "" if row.scope == "thread" else " convergent"
    head = f"define internal {row.result} @gpu.{name}({', '.join(given)}) alwaysinline{convergent}"
    constraints = ",".join([*_operands(row), "~{memory}"])
    call = f'call {row.result} asm sideeffect "{_instruction(name)}", "{constraints}"'
    call += f"({', '.join(given)}){convergent}"
    if row.result == "void":
        body = [f"  {call}", "  ret void"]
    else:
        body = [f"  %r = {call}", f"  ret {row.result} %r"]
    return "\n".join([f"{head} {{", *body, "}"])


def _operands(row: Helper) -> list[str]:
    """Return the constraints of the results and arguments of a helper."""
    arguments = [_CONSTRAINTS[kind] for kind in row.arguments]
    if row.result == "void":
        return arguments
    if not row.result.startswith("{"):
        return [f"={_CONSTRAINTS[row.result]}", *arguments]
    # Accumulators are tied operands, which instructions update in place, unless initialised.
    kinds = [_CONSTRAINTS[kind] for kind in row.result.strip("{}").split(", ")]
    taken = len(kinds) if len(arguments) >= len(kinds) else 0
    others = arguments[: len(arguments) - taken]
    return [*(f"={kind}" for kind in kinds), *others, *map(str, range(taken))]


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
    if action == "begin":
        return _PLAIN["warpgroup.begin"]
    if action.startswith("finish"):
        return f"wgmma.wait_group.sync.aligned {int(action == 'finish_earlier')};"
    kind, columns, order = rest
    count = int(columns) // 2
    sums = ", ".join(f"${i}" for i in range(count))
    words = 4 if order[0] == "r" else 1
    places = ", ".join(f"${count + i}" for i in range(words))
    at, right = f"{{{places}}}" if words > 1 else places, count + words
    keep = "0" if action == "initialise" else f"${right + 1}"
    left_type, _, right_type = kind.partition("_")
    result, orders = WARPGROUP_KINDS[kind]
    flags = []
    if result == "float":
        flags = [1, 1]  # neither side is negated
    if len(orders) > 1:
        flags += [int(side == "l") for side in order.removeprefix("r")]
    sums_type = "f32" if result == "float" else "s32"
    shape = f"m64n{columns}k{_DEPTHS.get(left_type, 32)}.{sums_type}"
    opcode = f"wgmma.mma_async.sync.aligned.{shape}.{left_type}.{right_type or left_type}"
    operands = [f"{{{sums}}}", at, f"${right}", "p", *map(str, flags)]
    product = f"{opcode} {', '.join(operands)};"
    return f"{{ .reg .pred p; setp.ne.b32 p, {keep}, 0; {product} }}"
