"""Rewrite rules, one file per theme; pattern and builder state the law."""

from hloc.opt.rule import Rule
from hloc.opt.rules.arithmetic import ARITHMETIC
from hloc.opt.rules.bounds import BOUND_COMPARISONS, BOUNDS, CONJUNCTIONS, SELECTS
from hloc.opt.rules.broadcast import BROADCAST
from hloc.opt.rules.compare_select import COMPARE_SELECT
from hloc.opt.rules.constants import CONSTANTS
from hloc.opt.rules.convert import CONVERT
from hloc.opt.rules.dot import DOT
from hloc.opt.rules.dynamic import DYNAMIC
from hloc.opt.rules.exponential import POWERS, QUOTIENTS
from hloc.opt.rules.logic import LOGIC
from hloc.opt.rules.ranges import RANGES
from hloc.opt.rules.reduce import REDUCE
from hloc.opt.rules.reshape_transpose import RESHAPE_TRANSPOSE
from hloc.opt.rules.slice_pad_concat import SLICE_PAD_CONCAT
from hloc.opt.rules.tuples import TUPLES

ALGEBRAIC: tuple[Rule, ...] = (
    *ARITHMETIC,
    *CONSTANTS,
    *POWERS,
    *QUOTIENTS,
    *LOGIC,
    *COMPARE_SELECT,
    *CONJUNCTIONS,
    *RANGES,
    *BOUNDS,
    *BOUND_COMPARISONS,
    *SELECTS,
    *CONVERT,
    *RESHAPE_TRANSPOSE,
    *BROADCAST,
    *SLICE_PAD_CONCAT,
    *REDUCE,
    *DOT,
    *DYNAMIC,
)
"""The rules of `algebraic-simplifier`, in the order they are tried."""

ALL_RULES: tuple[Rule, ...] = (*ALGEBRAIC, *TUPLES)
"""All rules, for listings and for the test that each fires in a golden."""
