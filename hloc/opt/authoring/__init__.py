"""Rules and passes in a few lines of Python, for students and plug-ins.

`from hloc.opt import rule, Pass, ops as o, any_, const, INT` is the whole API: patterns are trees
of opcodes, a rule is a function with a pattern, a pass is a list of rules. See docs/teaching.md.
"""

from hloc.opt.authoring.building import RuleBuilder
from hloc.opt.authoring.found import Found, Value
from hloc.opt.authoring.passes import ModulePass, Pass, passes_of, register_found
from hloc.opt.authoring.patterns import COMPLEX, FLOAT, INT, PRED, any_, const, ops
from hloc.opt.authoring.rules import AuthoredRule, rule
from hloc.opt.authoring.tools import add_like, fuse, hoist

__all__ = [
    "COMPLEX",
    "FLOAT",
    "INT",
    "PRED",
    "AuthoredRule",
    "Found",
    "ModulePass",
    "Pass",
    "RuleBuilder",
    "Value",
    "add_like",
    "any_",
    "const",
    "fuse",
    "hoist",
    "ops",
    "passes_of",
    "register_found",
    "rule",
]
