"""Plug-ins for tests: a wrong rule, and passes that fail, lie, or leave an invalid module."""

from pathlib import Path

WRONG_RULE = '''
"""A wrong law: minimum(x, y) is x."""
from hloc.opt.pattern import P
from hloc.opt.registry import register_rules
from hloc.opt.rule import Rule

register_rules(
    Rule("minimum-is-first", P("minimum", (P(bind="x"), P())), lambda c, inst, m: m["x"])
)
'''

_PASS = '''
from dataclasses import dataclass
from typing import ClassVar
from hloc.opt.registry import register_pass
from hloc.shapes import ArrayShape

@register_pass
@dataclass(frozen=True)
class Planted:
    """Planted."""

    name: ClassVar[str] = "planted"

    def run(self, module, context):
        for inst in module.entry.instructions:
            if not inst.is_a("minimum") or context.spent:
                continue
            context.at = inst
            BODY
        return context.rewrites > 0
'''


def _planted(body: str) -> str:
    lines = body.strip().splitlines()
    return _PASS.replace("BODY", "\n            ".join(lines))


CRASHES = _planted(
    """
with context.rewriting(module, "planted/divide"):
    1 / 0
"""
)
INVALID = _planted(
    """
with context.rewriting(module, "planted/widen"):
    module.entry.set_shape(inst, ArrayShape(inst.array.dtype, (3, 3)))
"""
)
LIES = _planted(
    """
module.entry.rename(inst, "other")
return False
"""
)


def plugin_file(folder: Path, text: str) -> str:
    """Write a plug-in and return the option that loads it."""
    path = folder / "planted.py"
    path.write_text(text)
    return f"--plugin={path}"


def long_module(instructions: int = 40, minimum_at: int = 25) -> str:
    """Return a chain of sums with one `minimum` in it."""
    lines = ["HloModule long", "", "ENTRY e {", "  p0 = f32[4,4] parameter(0)"]
    lines.append("  p1 = f32[4,4] parameter(1)")
    names = ["p0", "p1"]
    for i in range(instructions):
        opcode = "minimum" if i == minimum_at else ("add", "subtract", "add")[i % 3]
        root = "ROOT " if i == instructions - 1 else ""
        other = names[(7 * i + 1) % min(9, len(names))]
        lines.append(f"  {root}v{i} = f32[4,4] {opcode}({names[-1]}, {other})")
        names.append(f"v{i}")
    return "\n".join([*lines, "}", ""])
