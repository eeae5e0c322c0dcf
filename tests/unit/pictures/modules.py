"""Modules that the tests of pictures draw."""

from hloc.driver import parse_text
from hloc.ir.module import Module

HOSTILE = "</script><img src=x onerror=alert(1)>&\\\"'\u2028%DATA%"

SMALL = """HloModule small

double {
  p = f32[8,4] parameter(0)
  two = f32[] constant(2)
  twos = f32[8,4] broadcast(two), dimensions={}
  ROOT m = f32[8,4] multiply(p, twos)
}

larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}

ENTRY e {
  x = f32[8,4] parameter(0)
  lr = f32[] parameter(1)
  rate = f32[8,4] broadcast(lr), dimensions={}
  f = f32[8,4] fusion(x), kind=kLoop, calls=double
  s = f32[8,4] multiply(f, rate)
  low = f32[] constant(-inf)
  top = f32[8] reduce(s, low), dimensions={1}, to_apply=larger
  t = (f32[8], f32[8,4]) tuple(top, s)
  g = f32[8,4] get-tuple-element(t), index=1
  ROOT n = f32[8,4] negate(g)
}
"""


def small() -> Module:
    return parse_text(SMALL)


def layered_model(layers: int, *, scopes: bool = True, width: int = 20) -> Module:
    """Return a chain of equal layers; with `scopes` each has an op_name scope of its own."""
    lines = ["HloModule model", "", "ENTRY e {", "  v0 = f32[16,16] parameter(0)"]
    last, number = "v0", 0
    for layer in range(layers):
        lines.append(f"  w{layer} = f32[16,16] parameter({layer + 1})")
        for step in range(width):
            number += 1
            name = f"v{number}"
            opcode = ("add", "multiply", "subtract")[step % 3]
            other = f"w{layer}" if step == 0 else "v0"
            name_of = f', metadata={{op_name="jit(f)/layer_{layer}/{opcode}"}}' if scopes else ""
            lines.append(f"  {name} = f32[16,16] {opcode}({last}, {other}){name_of}")
            last = name
    lines.append(f"  ROOT out = f32[16,16] negate({last})")
    return parse_text("\n".join([*lines, "}", ""]))


def training_step(layers: int, *, scopes: bool = True) -> Module:
    """Return a loss, its gradient and an optimiser's step, about 11 instructions per layer.

    Scopes are named as JAX names them: `jvp(layer_3)` and `transpose(jvp(layer_3))`. Every backward
    layer reads what its forward layer kept.
    """
    lines = ["HloModule step", "", "ENTRY e {", "  x0 = f32[8,8] parameter(0)"]

    def put(name: str, text: str, scope: str) -> None:
        where = f', metadata={{op_name="jit(step)/{scope}/{text.split("(")[0]}"}}' if scopes else ""
        lines.append(f"  {name} = f32[8,8] {text}{where}")

    contract = "lhs_contracting_dims={%d}, rhs_contracting_dims={%d}"
    for i in range(layers):
        lines.append(f"  w{i} = f32[8,8] parameter({i + 1})")
        put(f"dot{i}", f"dot(x{i}, w{i}), {contract % (1, 0)}", f"jvp(layer_{i})")
        put(f"tanh{i}", f"tanh(dot{i})", f"jvp(layer_{i})")
        put(f"x{i + 1}", f"add(x{i}, tanh{i})", f"jvp(layer_{i})")
    put(f"g{layers}", f"subtract(x{layers}, x0)", "loss")
    for i in reversed(range(layers)):
        scope = f"transpose(jvp(layer_{i}))"
        put(f"square{i}", f"multiply(tanh{i}, tanh{i})", scope)
        put(f"slope{i}", f"multiply(g{i + 1}, square{i})", scope)
        put(f"dw{i}", f"dot(x{i}, slope{i}), {contract % (0, 0)}", scope)
        put(f"dx{i}", f"dot(slope{i}, w{i}), {contract % (1, 1)}", scope)
        put(f"g{i}", f"add(g{i + 1}, dx{i})", scope)
    for i in range(layers):
        put(f"new{i}", f"subtract(w{i}, dw{i})", "update")
    news = [f"new{i}" for i in range(layers)]
    shapes = ", ".join(["f32[8,8]"] * (layers + 1))
    lines.append(f"  ROOT out = ({shapes}) tuple({', '.join([*news, 'g0'])})")
    return parse_text("\n".join([*lines, "}", ""]))


def hostile() -> Module:
    """Return a module whose every text tries to leave its place."""
    module = parse_text(
        "HloModule m\n\nENTRY e {\n  x = f32[8] parameter(0)\n"
        '  c = f32[8] custom-call(x), custom_call_target="</text><script>\\"\\n"\n'
        "  ROOT r = f32[8] add(c, x)\n}\n"
    )
    module.name = HOSTILE + "\x00\x1b[31m\ud800"
    for inst in module.entry.instructions:
        inst.name = f"{inst.name}{HOSTILE}\x07"
    return module
