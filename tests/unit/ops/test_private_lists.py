"""Facts about opcodes stand in their rows: no list of names outside `hloc/ops` repeats them.

A list of three or more opcode names is allowed where it belongs to one algorithm or one format and
says nothing about the opcode that another reader would want; `ALLOWED` names each with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hloc.ops import OPCODES

ROOT = Path(__file__).parents[3]
FEWEST = 3

ALLOWED = {
    "dumps/inserted: OPCODES": "what compilers add beside the program: moves and conversions",
    "analysis/extract: _SPREADS": "what is as constant as its operand, and comes along with it",
    "cli/isolation/pieces: NO_CODE": "what has no machine code of its own to compare",
    "analysis/pools: POOLED_TYPES": "pools of the routine table, by what programs use",
    "analysis/reduction: _LIGHT": "what the reducer of modules cannot make smaller",
    "codegen/builder/lane_arithmetic: folded": "LLVM's names of vector reductions",
    "codegen/cpu/llvm_units: _UNROLLED_FROM": "where LLVM unrolls loops of these emitters",
    "codegen/cpu/emitters/reduction/cumulative: folded": "methods of the builder",
    "codegen/cpu/emitters/reduction/fold_routine: SMALL_FOLDS": "routines of the installation",
    "codegen/elements/reductions: combined": "methods of the builder",
    "codegen/gpu/exchange_form: _REWRITES": "collectives that NCCL has in one form only",
    "codegen/gpu/nccl_sums: OPERATIONS": "NCCL's numbers of its reductions",
    "codegen/gpu/nccl_sums: _OF_PRED": "NCCL's numbers of its reductions",
    "codegen/kernels/extremum: _COMPARES": "the pattern of an argmax",
    "codegen/kernels/extremum: _SELECTS": "the pattern of an argmax",
    "codegen/kernels/lanes: _OPCODES": "what the vectors of this code generator can hold",
    "codegen/kernels/lanes: _WITHOUT_WORK": "what moves no element from one lane to another",
    "codegen/kernels/row_region: _divides": "views that keep a row together",
    "codegen/kernels/vectors: folded": "methods of the builder",
    "codegen/lower/collapsed_dimensions: _MOVES": "opcodes whose attributes the pass rewrites",
    "codegen/lower/collapsed_dimensions: _OTHERS": "opcodes whose attributes name no dimension",
    "codegen/lower/collapsed_dimensions: _PARTS": "opcodes whose attributes the pass scales",
    "codegen/lower/fusible: STRUCTURAL": "opcodes that kernels of this code generator end with",
    "formats/proto_attributes: _MESSAGES": "fields of the protocol buffer that are messages",
    "ir/async_chain: _hands_on": "what XLA lets stand between the links of a chain",
    "ir/verifier/async_chains: _USERS": "what XLA lets take a started computation",
    "ir/device_groups: TRANSFERS": "the four that share a channel",
    "ir/verifier/devices: _size_fault": "collectives whose shapes tell the size of a group",
    "jax/buffers: _ALIASES": "what JAX's buffers alias",
    "jax/buffers: _BORROWED": "what JAX's buffers alias",
    "jax/buffers: add": "callers that own the memory of their operands",
    "opt/expanders/batch_norm_expander: acts_on": "what the pass expands",
    "opt/constant_folding: _KNOWN": "operands that this pass takes for constants, by size",
    "opt/constant_folding: _NOT_FOLDED": "what this pass leaves alone, with reasons",
    "opt/dynamic/rules: _RULES": "rules of the pass, by opcode; others are refused",
    "opt/dynamic/rules: _USED_DIMS": "rules of the pass, by opcode",
    "opt/dynamic_padder: _resolve_in_order": "what has sizes of its own",
    "opt/dynamic_padder: _SIZES_ARE_VALUES": "what the pass makes of sizes",
    "opt/contraction/split_k_gemm_rewriter: _IN_MEMORY": "matrices that no kernel computes",
    "opt/fusion/attention_match: _SIDE_OPCODES": "the pattern of an attention",
    "opt/fusion/attention_match: _MOVES": "the pattern of an attention",
    "opt/fusion/cost_model: _READ_NOTHING": "what the model of this fusion reckons as no read",
    "opt/fusion/cost_model: _bytes_read": "what the model of this fusion reckons as one read",
    "opt/fusion/fusible: producer_of": "the walk back over views, in one place",
    "opt/fusion/group: read_law": "reads that attributes and shape decide alone",
    "opt/fusion/group: _ROOTS_WITH_LOOPS_OF_THEIR_OWN": "CPU kernels that loop over operands",
    "opt/fusion/lanes: _SAME_DIMENSION": "how lanes go through movements, by opcode",
    "opt/fusion/output_fusion: acts_on": "what the pass begins at",
    "opt/fusion/region: OWN_LOOPS": "GPU kernels that loop over operands",
    "opt/layout/layout_assignment: fixes_layout": "users that read bytes, beside three facts",
    "opt/layout/layout_assignment: acts_on": "what the pass begins at",
    "opt/library/movement/convert_mover: _MOVES": "movements whose operands all are data",
    "opt/library/types/float_normalization: _NOT_ARITHMETIC": "what this pass leaves in its type",
    "opt/movement/all_reduce_simplifier: _COLLECTIVES": "what the pass simplifies",
    "opt/rematerialization: _is_cheap": "what is never done twice",
    "opt/rematerialization: _SLOW": "what is never done twice",
    "opt/layout/short_rows_layout: acts_on": "what the pass begins at",
    "opt/layout/short_rows_layout: _MOVES": "movements that keep the order of dimensions",
    "opt/layout/short_rows_layout: _is_flexible": "values whose layout no operand decides",
    "opt/spmd/array_classes: FORWARDING": "what forwards arrays without a factor rule",
    "opt/spmd/array_classes: CALLERS": "what calls computations with arrays as they are",
    "opt/spmd/partitioners/table: PARTITIONERS": "opcodes that are divided in a way of their own",
    "opt/spmd/propagation_rules: _MOVED": "where the order of propagation departs from factors",
    "opt/spmd/propagation_rules: _FORWARDING": "where propagation departs from factors",
    "opt/spmd/propagation_rules: _KEEPS_DIMS": "what propagates first",
    "opt/spmd/sharding_propagation: _is_constant_like": "what is made anew for each user",
    "opt/spmd/combine: _REDUCERS": "reducers whose identity the partitioner knows",
    "opt/spmd/walk: _maker": "what every device can compute again at little cost",
    "opt/spmd/walk: _is_partitionable": "what the partitioner computes whole",
    "opt/rules/exponential: _RISING": "the functions that one rule takes",
    "opt/rules/logic: LOGIC": "the opcodes that one rule takes",
    "prove/meanings/floats: FLOATS": "a second meaning, compared with the evaluator",
    "prove/meanings/integers: INTEGERS": "a second meaning, compared with the evaluator",
    "prove/meanings/predicates: PREDICATES": "a second meaning, compared with the evaluator",
    "prove/moves: PLACES": "moves whose map depends on values",
    "prove/structure: STRUCTURE": "what runs on terms in a way of its own",
    "prove/terms: _BY_PART": "complex arithmetic that treats both parts alike",
    "parser/attributes: _DROPPED": "attributes that XLA's parser drops",
    "parser/special_cases: SPECIAL_CASES": "what XLA's parser treats apart",
    "parser/special_cases: _ONE_DIMENSION": "what XLA's parser demands",
    "parser/special_cases: _TAKES_TOO_MANY": "what XLA's parser does not demand",
    "pictures/colours: _OPCODES": "XLA's colours",
    "ptx/instructions/compare: COMBINATIONS": "words of PTX, not opcodes",
    "report/index_ranges: _index_uses": "how each opcode uses its indices",
    "report/index_ranges: _ALL_OPERANDS": "arithmetic that keeps indices near",
    "report/opcode_examples: _DTYPES": "types of examples that do not take f32",
    "report/input_specs: _INDEXING": "what index_ranges.py knows, for a message",
    "opt/pattern_text: _WITH_EXTRAS": "operands that a pattern need not write",
    "runtime/communicator/mpi/collectives: _BY_ARRAY": "collectives that one call of MPI does",
    "runtime/communicator/mpi/collectives: calls": "what this engine has",
    "runtime/communicator/mpi/native_sums: _LOGICAL": "what MPI calls its logical operations",
    "runtime/communicator/nccl/work: _one_array": "collectives that one call of NCCL does",
    "stablehlo/block_writer: _FORWARDED": "what StableHLO has no operation for",
    "stablehlo/forms: _ELEMENTWISE": "words of StableHLO, not opcodes",
    "stablehlo/operations: CHLO": "words of CHLO, not opcodes",
    "stablehlo/special_instructions: SPECIAL": "how each is written in StableHLO",
    "torch/operators/elementwise: _unary": "what ATen says of complex numbers",
    "report/roundings: SAME_ELEMENTS": "what keeps the elements in row-major order",
    "report/conditioning: _is_sum": "opcodes that take a reducer, which says if they sum",
    "report/roundings: _NOT_ROUNDED": "what rounds nothing, whose values must stay exact",
}


def _strings(nodes: list[ast.expr]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _names(node: ast.AST) -> list[str]:
    """Return the strings that a literal, a call, a chain of comparisons or a `match` lists."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return _strings(elements)
        case ast.Dict(keys=keys):
            return _strings([key for key in keys if key is not None])
        case ast.Call(args=arguments):
            return _strings(arguments)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.Add(), right=right):
            return _names(left) + _names(right)
        case ast.BoolOp(values=values):
            equal = [v for v in values if isinstance(v, ast.Compare)]
            return [
                s for v in equal if isinstance(v.ops[0], ast.Eq) for s in _strings(v.comparators)
            ]
        case ast.Match(cases=cases):
            parts = [part for case in cases for part in ast.walk(case.pattern)]
            return _strings([part.value for part in parts if isinstance(part, ast.MatchValue)])
        case ast.Constant(value=str(text)) if " " in text:
            return text.split()
    return []


def _owners(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield every node with the name of the function or variable that it is part of."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, owner = stack.pop()
        yield node, owner
        match node:
            case ast.FunctionDef(name=name):
                owner = name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                owner = name if "(" not in owner and not owner.islower() else owner
        stack += [(child, owner) for child in ast.iter_child_nodes(node)]


def lists_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the owner and the names of each list of three or more opcodes in a Python file."""
    for node, owner in _owners(ast.parse(text)):
        names = _names(node)
        opcodes = {name for name in names if name in OPCODES}
        if len(opcodes) >= FEWEST and len(opcodes) >= 0.8 * len(set(names)):
            yield owner, names


_QUOTED = re.compile(r"""["']([a-z0-9 _-]+)["']""")


def _may_list(text: str) -> bool:
    """True if the strings of a file name three opcodes; most files end here."""
    words = {word for quoted in _QUOTED.findall(text) for word in quoted.split()}
    return len(words & OPCODES.keys()) >= FEWEST


@cache
def _found() -> dict[str, list[str]]:
    found = {}
    for folder in ("hloc", "repl"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT).with_suffix("").as_posix().removeprefix("hloc/")
            if not path.startswith(("ops/", "lessons/")):
                text = file.read_text()
                for owner, names in lists_in(text) if _may_list(text) else ():
                    found[f"{path}: {owner}"] = names
    return found


def test_every_list_of_opcodes_outside_the_rows_has_a_reason() -> None:
    unnamed = {place: names for place, names in _found().items() if place not in ALLOWED}
    assert not unnamed, "a fact about opcodes belongs into their rows (hloc/ir/opcode.py)"


def test_every_reason_still_has_its_list() -> None:
    assert not ALLOWED.keys() - _found().keys()


def test_a_list_is_found_however_it_is_written() -> None:
    for text in (
        "A = frozenset({'add', 'dot', 'sort'})",
        "A = {'add', 'dot'} | {'sort'}",
        "def a(inst):\n  return inst.is_a('add', 'dot', 'sort')",
        "def a(name):\n  return name == 'add' or name == 'dot' or name == 'sort'",
        "A = {'add': 1, 'dot': 2, 'sort': 3}",
        "A = 'add dot sort'",
        "def a(name):\n  match name:\n    case 'add' | 'dot': pass\n    case 'sort': pass",
    ):
        assert _may_list(text)
        assert list(lists_in(text)), text
    assert not list(lists_in("A = ('add', 'dot', 'three')"))
    assert not list(lists_in("A = ('add', 'dot')"))
