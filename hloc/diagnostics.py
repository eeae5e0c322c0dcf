"""Every diagnostic code: its meaning, a small example, and the fix.

`hloc explain CODE` and docs/diagnostics.md are made from this table; a test parses every example.
"""

from __future__ import annotations

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """One code.

    Attributes:
        title: the error in a few words.
        text: the meaning and the reason of the check.
        example: a text with this error; "" if only a pass can cause it.
        remedy: how to fix it.
    """

    code: str
    title: str
    text: str
    example: str
    remedy: str


GROUPS = (
    ("HLOC01", "The text and its names"),
    ("HLOC02", "Shapes, attributes and values in the text"),
    ("HLOC03", "The verified module"),
    ("HLOC04", "StableHLO text"),
)

_BROKEN_BY_A_PASS = (
    "No text can cause this: a pass, or a program that changes a module through "
    "the Python interface, left the module broken. Run with --verify-each to see after which pass."
)


def _entry(*lines: str) -> str:
    """Return a module with an entry computation of these lines."""
    return "HloModule m\nENTRY main {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


_SUM = (
    "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
)

_ROWS = (
    # ---------------------------------------------------------------- the text
    Explanation(
        "HLOC0101", "syntax error",
        "The text does not follow the grammar of HLO at this place. Parsing continues at the next "
        "instruction, so that one run shows all such places.",
        _entry("a = f32[] parameter(0)", "ROOT b = f32[] add(a a)"),
        "Write what the message expects. Frequent causes: a missing comma between operands, no "
        "blank before the `=` of an instruction, a `;` at the end of a line.",
    ),
    Explanation(
        "HLOC0102", "unterminated string, comment or bracket",
        "A string, a `/*` comment or a bracket is not closed, or a bracket of another kind closes "
        "first.",
        _entry('ROOT a = f32[] parameter(0), metadata={op_name="x}'),
        "Close it. If the text comes from a log, check whether the log cut the line.",
    ),
    Explanation(
        "HLOC0103", "nested too deeply",
        "Brackets or computations inside computations are nested deeper than in any real module. "
        "The bound keeps hostile texts from exhausting the stack.",
        _entry(f"ROOT a = f32[] parameter(0), sharding={'{' * 130}{'}' * 130}"),
        "Define the inner computations by name instead of writing them inline.",
    ),
    Explanation(
        "HLOC0104", "unknown opcode",
        "There is no HLO opcode of this name.",
        _entry("a = f32[] parameter(0)", "ROOT b = f32[] negat(a)"),
        "`hloc ops` lists all opcodes. Names in other languages differ: `mul` is `multiply`, "
        "`matmul` is `dot`, `exp` is `exponential`.",
    ),
    Explanation(
        "HLOC0105", "unknown operand",
        "An operand names no instruction before this one in the same computation.",
        _entry("a = f32[] parameter(0)", "ROOT b = f32[] negate(c)"),
        "Define it first, in the same computation. Pass values to another computation as "
        "parameters.",
    ),
    Explanation(
        "HLOC0106", "instruction defined twice",
        "Two instructions of one computation have the same name.",
        _entry("a = f32[] parameter(0)", "ROOT a = f32[] negate(a)"),
        "Rename one: HLO values are never overwritten.",
    ),
    Explanation(
        "HLOC0107", "unknown computation",
        "An attribute such as `to_apply` names a computation that is not defined before it.",
        _entry("a = f32[] parameter(0)", "ROOT b = f32[] call(a), to_apply=f"),
        "Put the called computation above its caller.",
    ),
    Explanation(
        "HLOC0108", "computation defined twice",
        "Two computations of the module have the same name.",
        "HloModule m\nf { ROOT a = f32[] parameter(0) }\nf { ROOT a = f32[] parameter(0) }\n",
        "Rename one, and its callers' attributes with it.",
    ),
    Explanation(
        "HLOC0109", "illegal name",
        "The name is a keyword, an element type, or begins with two underscores, which XLA "
        "reserves.",
        _entry("ROOT %s32 = f32[] parameter(0)"),
        "Choose another name; a keyword can be written with `%` before it.",
    ),
    Explanation(
        "HLOC0110", "two ENTRY or two ROOT",
        "A module has one entry computation, a computation has one root.",
        _entry("ROOT a = f32[] parameter(0)", "ROOT b = f32[] negate(a)"),
        "Keep the mark on one. Several results are returned as one `tuple`. Several modules in one "
        "file are divided by a line `// -----`.",
    ),
    Explanation(
        "HLOC0111", "nothing there",
        "The text, the module or a computation is empty.",
        "HloModule m\n",
        "A module has at least one computation, and a computation at least one instruction.",
    ),
    Explanation(
        "HLOC0112", "not a text",
        "The file contains bytes that are not text.",
        "HloModule m\0\n",
        "Perhaps it is a binary form of a module; write it with XLA's `--xla_dump_hlo_as_text`.",
    ),
    # ---------------------------------------------------------------- shapes and attributes
    Explanation(
        "HLOC0201", "malformed shape",
        "The element type is unknown, the layout does not fit the dimensions, or the opcode needs "
        "another kind of shape.",
        _entry("ROOT a = float32[2,3] parameter(0)"),
        "Write `f32[2,3]`, with a layout `f32[2,3]{1,0}` that names every dimension once, minor to "
        "major.",
    ),
    Explanation(
        "HLOC0202", "unexpected attribute",
        "This opcode, computation or module has no such attribute.",
        _entry("a = f32[2,3] parameter(0)", "ROOT b = f32[3,2] transpose(a), dims={1,0}"),
        "The note lists its attributes; `hloc ops NAME` describes them.",
    ),
    Explanation(
        "HLOC0203", "attribute given twice",
        "One instruction gives the same attribute twice.",
        _entry(
            "a = f32[2,3] parameter(0)",
            "ROOT b = f32[3,2] transpose(a), dimensions={1,0}, dimensions={1,0}",
        ),
        "Keep one.",
    ),
    Explanation(
        "HLOC0204", "missing attribute",
        "The opcode means nothing without this attribute.",
        _entry("a = f32[2,3] parameter(0)", "ROOT b = f32[3,2] transpose(a)"),
        "Add it; `hloc ops NAME` says what it is.",
    ),
    Explanation(
        "HLOC0205", "malformed attribute",
        "The value does not have the form of this attribute, or contradicts another attribute.",
        _entry("a = f32[2,3] parameter(0)", "ROOT b = f32[3,2] transpose(a), dimensions={1;0}"),
        "Write it as the message says; `hloc ops NAME` shows the kind of every attribute.",
    ),
    Explanation(
        "HLOC0206", "wrong operands",
        "The opcode takes another number of operands, or operands of another kind.",
        _entry("a = f32[] parameter(0)", "ROOT b = f32[] add(a)"),
        "`hloc ops NAME` says how many operands there are.",
    ),
    Explanation(
        "HLOC0207", "operand written with another shape",
        "A shape before an operand must be the shape of the instruction it names.",
        _entry("a = f32[2] parameter(0)", "ROOT b = f32[2] negate(f32[3] a)"),
        "Leave the shape out, or correct it.",
    ),
    Explanation(
        "HLOC0208", "signature and root differ",
        "The result type in the signature of a computation is not the shape of its root.",
        "HloModule m\nENTRY f (a: f32[2]) -> f32[3] { ROOT a = f32[2] parameter(0) }\n",
        "Leave the signature out, or correct it.",
    ),
    Explanation(
        "HLOC0209", "shape cannot be inferred",
        "The operands do not determine the shape of this opcode, and none is written.",
        _entry("a = f32[2] parameter(0)", "ROOT b = convert(a)"),
        "Write the shape before the opcode: `b = s32[2] convert(a)`.",
    ),
    Explanation(
        "HLOC0210", "operands do not fit, so no shape follows",
        "No shape is written, and the operands are such that none can be inferred.",
        _entry(
            "a = f32[2] parameter(0)", "b = f32[3] parameter(1)", "ROOT c = add(a, b)"
        ),
        "Make the operands fit. HLO has no implicit broadcasting: insert a `broadcast`.",
    ),
    Explanation(
        "HLOC0211", "malformed literal",
        "The value of a constant does not fit its shape: too many or too few elements, a value "
        "out of range of the type, or no value at all.",
        _entry("ROOT a = s8[2] constant({127, 128})"),
        "Write as many values as the shape has, in braces per dimension.",
    ),
    Explanation(
        "HLOC0212", "wrong parameter number",
        "The parameters of a computation are numbered from 0 without gaps, each number once.",
        _entry("a = f32[] parameter(0)", "ROOT b = f32[] parameter(2)"),
        "Renumber them. The number is the position in the callers' operands.",
    ),
    Explanation(
        "HLOC0213", "alias of a result that does not exist",
        "`input_output_alias` names a leaf of the result that the entry computation does not have.",
        "HloModule m, input_output_alias={{1}: (0, {})}\n"
        "ENTRY f { ROOT a = f32[2] parameter(0) }\n",
        "Write the index of a leaf: `{}` for a result that is not a tuple, `{0}` for the first of "
        "a tuple.",
    ),
    # ---------------------------------------------------------------- the verifier
    Explanation(
        "HLOC0301", "the entry computation is called",
        "The entry computation is where execution begins; no instruction may call it.",
        "HloModule m\nENTRY f { ROOT a = f32[] parameter(0) }\n"
        "g { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f }\n",
        "Move the common part into a third computation.",
    ),
    Explanation(
        "HLOC0302", "calls a computation of another module",
        "An instruction calls a computation that is not in this module. " + _BROKEN_BY_A_PASS,
        "", "Clone the computation into the module before it is called.",
    ),
    Explanation(
        "HLOC0303", "recursion",
        "A computation calls itself, directly or through others; HLO has no recursion. "
        + _BROKEN_BY_A_PASS,
        "", "Use a `while`.",
    ),
    Explanation(
        "HLOC0304", "callers out of step",
        "A computation does not list an instruction that calls it. " + _BROKEN_BY_A_PASS,
        "", "Change instructions only through the methods of `Computation`.",
    ),
    Explanation(
        "HLOC0305", "computation without a root",
        "No instruction is the result of the computation. " + _BROKEN_BY_A_PASS,
        "", "Call `set_root`.",
    ),
    Explanation(
        "HLOC0306", "operand of another computation",
        "Operands and control predecessors are in the computation that uses them. "
        + _BROKEN_BY_A_PASS,
        "", "Pass the value as a parameter.",
    ),
    Explanation(
        "HLOC0307", "users out of step",
        "An instruction and its operand disagree on whether one uses the other. "
        + _BROKEN_BY_A_PASS,
        "", "Change operands only through `set_operands` and `replace`.",
    ),
    Explanation(
        "HLOC0308", "cycle",
        "An instruction depends on itself through operands or control predecessors. "
        + _BROKEN_BY_A_PASS,
        "", "Look at the rewrite that connected the two: `hlo-repl` shows it with `why NAME`.",
    ),
    Explanation(
        "HLOC0309", "parameters with gaps",
        "The parameters of a computation are not numbered from 0, each number once. "
        + _BROKEN_BY_A_PASS,
        "", "Renumber the parameters and the operands of all callers together.",
    ),
    Explanation(
        "HLOC0310", "wrong number of operands",
        "The opcode takes another number of operands. " + _BROKEN_BY_A_PASS,
        "", "`hloc ops NAME` says how many operands there are.",
    ),
    Explanation(
        "HLOC0311", "invalid layout or size",
        "A dimension has a negative size, or an attribute of the layout (tile, element size, "
        "alignment, memory space) is out of range.",
        _entry("ROOT a = f32[2,3]{1,0:T(0)} parameter(0)"),
        "Correct the attribute, or leave it out.",
    ),
    Explanation(
        "HLOC0312", "implicit broadcast",
        "An elementwise instruction mixes arrays of different dimensions, or declares a result of "
        "dimensions other than those of its operands. HLO has no implicit broadcasting.",
        _entry(
            "a = f32[8] parameter(0)", "b = f32[] parameter(1)", "ROOT c = f32[8] add(a, b)"
        ),
        "Insert a broadcast: `d = f32[8] broadcast(b), dimensions={}`.",
    ),
    Explanation(
        "HLOC0313", "operands and attributes do not fit",
        "No shape can be inferred from these operands and attributes; the message says which rule "
        "of the opcode they violate.",
        _entry(
            "a = f32[8,4] parameter(0)", "b = f32[8,4] parameter(1)",
            "ROOT c = f32[8,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        "The notes name every operand, its shape and where it is defined: correct the one that is "
        "wrong.",
    ),
    Explanation(
        "HLOC0314", "declared shape is wrong",
        "The inferred shape differs from the one written before the opcode. XLA's text parser "
        "trusts the written shape; hloc does not.",
        _entry("a = f32[2,3] parameter(0)", "ROOT b = f32[2,3] transpose(a), dimensions={1,0}"),
        "Write the shape that the message gives, or leave it out.",
    ),
    Explanation(
        "HLOC0315", "schedule out of order",
        "The header says `is_scheduled=true`, so instructions run in the order of the text; here "
        "one comes before something that it needs. " + _BROKEN_BY_A_PASS,
        "", "Move it after its operands and control predecessors, or drop `is_scheduled`.",
    ),
    Explanation(
        "HLOC0316", "start and done do not pair",
        "An asynchronous operation is ended by exactly one `-done` of its own kind, and nothing "
        "else uses its start. Between `async-start` and `async-done` there may be `async-update`, "
        "tuples, copies, barriers and loops; the done needs all operands of the computation.",
        _entry(
            "a = f32[2] parameter(0)", "s = (f32[2], f32[2], u32[]) copy-start(a)",
            "ROOT b = f32[2] get-tuple-element(s), index=0",
        ),
        "Let the matching `-done` be the only user of the start.",
    ),
    Explanation(
        "HLOC0317", "transfer ended on another channel",
        "`send-done` and `recv-done` have the channel_id and is_host_transfer of the `send` or "
        "`recv` that they end. Collectives may share channels, with transfers too.",
        "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  t = token[] after-all()\n"
        "  s = (f32[2], u32[], token[]) send(x, t), channel_id=1\n"
        "  ROOT d = token[] send-done(s), channel_id=2\n}\n",
        "Give both the same channel.",
    ),
    Explanation(
        "HLOC0318", "invalid replica groups",
        "Replica groups name each replica once, or each partition, or each device, and none is "
        "empty; `{}` is one group of all. Groups of opcodes other than all-reduce have one size, "
        "which is the factor of an all-gather or reduce-scatter; pairs name devices that the "
        "header has.",
        _SUM + "ENTRY e {\n  x = f32[2] parameter(0)\n"
        "  ROOT r = f32[2] all-reduce(x), replica_groups={{0,1},{1,2}}, to_apply=add\n}\n",
        "List each device in one group; count them in the header: replica_count, num_partitions.",
    ),
    Explanation(
        "HLOC0319", "sharding does not fit the shape",
        "A tiled sharding has one entry per dimension of the array (and one per subgroup) and "
        "names every device once; a sharding of a tuple has one element per leaf.",
        _entry("ROOT a = f32[4] parameter(0), sharding={devices=[2,2]<=[4]}"),
        "Correct the device array, or mark further dimensions with `last_tile_dims`.",
    ),
    Explanation(
        "HLOC0320", "entry_computation_layout has another number of parameters",
        "The header describes more or fewer parameters than the entry computation has.",
        "HloModule m, entry_computation_layout={(f32[2]{0}, f32[2]{0})->f32[2]{0}}\n"
        "ENTRY f { ROOT a = f32[2] parameter(0) }\n",
        "Leave the attribute out, or correct it after changing parameters.",
    ),
    Explanation(
        "HLOC0321", "entry_computation_layout and a parameter differ",
        "The header gives a parameter of the entry computation another shape.",
        "HloModule m, entry_computation_layout={(f32[3]{0})->f32[2]{0}}\n"
        "ENTRY f { ROOT a = f32[2] parameter(0) }\n",
        "Leave the attribute out, or correct it.",
    ),
    Explanation(
        "HLOC0322", "entry_computation_layout and the result differ",
        "The header gives the result of the entry computation another shape.",
        "HloModule m, entry_computation_layout={(f32[2]{0})->f32[3]{0}}\n"
        "ENTRY f { ROOT a = f32[2] parameter(0) }\n",
        "Leave the attribute out, or correct it.",
    ),
    Explanation(
        "HLOC0323", "alias of a parameter that does not exist",
        "`input_output_alias` names a parameter, or a leaf of one, that the entry computation does "
        "not have.",
        "HloModule m, input_output_alias={{}: (1, {})}\nENTRY f { ROOT a = f32[2] parameter(0) }\n",
        "Write the number and leaf of an existing parameter.",
    ),
    Explanation(
        "HLOC0324", "alias of different sizes",
        "`input_output_alias` lets an output use the buffer of a parameter: both are arrays of "
        "one size in bytes, not tuples.",
        "HloModule m, input_output_alias={{}: (0, {})}\n"
        "ENTRY f { a = f32[4] parameter(0) ROOT b = f32[2] slice(a), slice={[0:2]} }\n",
        "Remove the alias, or name a parameter of the output's size.",
    ),
    Explanation(
        "HLOC0325", "fused computation with another caller",
        "A computation that a fusion calls is the body of one kernel and has no other callers.",
        "HloModule m\nf { p = f32[] parameter(0) ROOT n = f32[] negate(p) }\nENTRY main {\n"
        "  a = f32[] parameter(0)\n  b = f32[] call(a), to_apply=f\n"
        "  ROOT c = f32[] fusion(b), kind=kLoop, calls=f\n}\n",
        "Give the other caller a copy.",
    ),
    Explanation(
        "HLOC0326", "output_to_operand_aliasing of a part that does not exist",
        "The attribute names leaves of the result and of operands that exist, each output once.",
        _entry(
            "a = f32[4] parameter(0)",
            'ROOT b = f32[4] custom-call(a), custom_call_target="f", '
            "output_to_operand_aliasing={{}: (1, {})}",
        ),
        "Write `{output index}: (operand number, {index})`.",
    ),
    Explanation(
        "HLOC0327", "no devices",
        "`replica_count` and `num_partitions` are at least 1.",
        "HloModule m, replica_count=0\nENTRY f { ROOT a = f32[2] parameter(0) }\n",
        "Leave the attribute out for a program of one device.",
    ),
    Explanation(
        "HLOC0328", "invalid buffer donor",
        "`buffer_donor` names a parameter that does not exist, a tuple, or one that "
        "`input_output_alias` uses already.",
        "HloModule m, buffer_donor={(1, {})}\nENTRY f { ROOT a = f32[2] parameter(0) }\n",
        "Name an array among the parameters, once.",
    ),
    Explanation(
        "HLOC0329", "asynchronous operation never ended",
        "Every `X-start` is ended by an `X-done`.",
        _entry(
            "a = f32[4] parameter(0)", "b = (f32[4], f32[4], u32[]) copy-start(a)",
            "ROOT c = f32[4] negate(a)",
        ),
        "Add the missing done, or remove the start.",
    ),
    Explanation(
        "HLOC0330", "negative channel",
        "A channel number is not negative; 0 means no channel.",
        _SUM + "ENTRY e {\n  x = f32[2] parameter(0)\n"
        "  ROOT r = f32[2] all-reduce(x), channel_id=-1, to_apply=add\n}\n",
        "Give a collective a positive channel, or none.",
    ),
    Explanation(
        "HLOC0331", "parameter aliased to two outputs",
        "The buffer of a parameter holds one output.",
        "HloModule m, input_output_alias={{0}: (0, {}), {1}: (0, {})}\n"
        "ENTRY f { a = f32[2] parameter(0) ROOT t = (f32[2], f32[2]) tuple(a, a) }\n",
        "Alias each parameter once.",
    ),
    Explanation(
        "HLOC0332", "output_to_operand_aliasing of different sizes",
        "An output that shares the memory of an operand has its size in bytes.",
        _entry(
            "a = f32[4] parameter(0)",
            'ROOT b = f32[2] custom-call(a), custom_call_target="f", '
            "output_to_operand_aliasing={{}: (0, {})}",
        ),
        "Remove the alias, or name an operand of the output's size.",
    ),
    Explanation(
        "HLOC0401", "malformed StableHLO",
        "The text does not follow MLIR's syntax, or that of StableHLO's operations. The message "
        "says what was expected at the caret.",
        "module @m {\n"
        "  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "    %0 = stablehlo.ad %a, %a : tensor<4xf32>\n"
        "    return %0 : tensor<4xf32>\n"
        "  }\n"
        "}\n",
        "Compare the text with what jax.jit(f).lower(...).as_text() prints.",
    ),
    Explanation(
        "HLOC0402", "wrong StableHLO operation",
        "The syntax is valid, but an operation uses a value that is not defined, has attributes "
        "or regions that do not fit it, or calls a function that does not exist.",
        "module @m {\n"
        "  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "    %0 = stablehlo.add %a, %b : tensor<4xf32>\n"
        "    return %0 : tensor<4xf32>\n"
        "  }\n"
        "}\n",
        "Correct the operation at the caret.",
    ),
    Explanation(
        "HLOC0403", "StableHLO operation without a counterpart",
        "The operation is legal, but hloc has no opcode and no expansion for it.",
        "module @m {\n"
        "  func.func @main(%a: tensor<4xf32>, %i: tensor<1xi64>) -> tensor<4xf32> {\n"
        "    %0 = chlo.polygamma %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>\n"
        "    return %0 : tensor<4xf32>\n"
        "  }\n"
        "}\n",
        "With pip install 'hloc[jax]', jaxlib converts such modules.",
    ),
)  # fmt: skip

EXPLANATIONS: dict[str, Explanation] = {row.code: row for row in _ROWS}
"""The rows by code."""
