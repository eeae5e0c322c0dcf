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
