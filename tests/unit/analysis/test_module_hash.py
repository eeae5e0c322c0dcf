"""The digest of a module: equal whenever `hloc diff` sees no difference, different otherwise."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.analysis.diff.file_diff import DiffOptions, diff_modules
from hloc.analysis.diff.module_hash import HashOptions, module_hash
from hloc.cli import main
from hloc.ir.module import Module
from hloc.ir.printer import print_instruction
from tests.unit.analysis.test_file_diff import TEXT, chain

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(path for path in ROOT.glob("examples/*.hlo") if path.stat().st_size < 100_000)
NO_SHAPES = HashOptions(shapes=False, constants=False)


def hash_of(text: str, options: HashOptions | None = None) -> str:
    return module_hash(hloc.parse(text), options or HashOptions())


def rewritten(module: Module, seed: int) -> str:
    """Return a text of `module` with new names, operands first in an order by chance."""
    draw = random.Random(seed)
    names: dict[str, str] = {}

    def renamed(name: re.Match[str]) -> str:
        return names.setdefault(name.group(), f"%n.{draw.randrange(1_000_000)}.{len(names)}")

    head = str(module).partition("\n")[0].replace("is_scheduled=true, ", "")
    parts = [re.sub(r"^HloModule [^,\s]+", "HloModule other", head)]
    for computation in module.computations:
        waiting = {inst: set(inst.operands) for inst in computation.instructions}
        lines = []
        while waiting:
            ready = [inst for inst, missing in waiting.items() if not missing]
            inst = draw.choice(ready)
            del waiting[inst]
            for missing in waiting.values():
                missing.discard(inst)
            lines.append(("ROOT " if inst.is_root else "") + print_instruction(inst))
        entry = "ENTRY " if computation is module.entry else ""
        parts.append(f"{entry}%{computation.name} {{\n" + "\n".join(lines) + "\n}")
    body = re.sub(r", metadata=\{[^}]*\}", "", "\n".join(parts[1:]))
    return parts[0] + "\n" + re.sub(r"%[\w.\-]+", renamed, body)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_names_order_metadata_and_styles_do_not_count(path: Path) -> None:
    module = hloc.load(str(path))
    expected = module_hash(module)
    for seed in range(3):
        other = hloc.parse(rewritten(module, seed))
        assert diff_modules(module, other, DiffOptions(header=False)).is_empty
        assert module_hash(other, HashOptions(header=False)) == module_hash(
            module, HashOptions(header=False)
        )
    for style in ("default", "short"):
        assert hash_of(module.to_text(style=style, large_constants=True)) == expected
    compact = hloc.parse(module.to_text(tuple_style="compact", large_constants=True))
    if diff_modules(module, compact).is_empty:  # it drops elements that nothing uses
        assert module_hash(compact) == expected


@settings(max_examples=60)
@given(st.integers(0, 2**20), st.sampled_from(MODULES), st.data())
def test_a_module_with_another_opcode_has_another_hash(
    seed: int, path: Path, data: st.DataObject
) -> None:
    """Equal by `hloc diff` is equal by hash, and the reverse, for one edit anywhere."""
    module = hloc.load(str(path))
    lines = [
        inst.name
        for computation in module.computations
        for inst in computation.instructions
        if inst.is_a("add", "multiply", "tanh", "subtract") and inst.common.metadata is None
    ] or [
        inst.name
        for computation in module.computations
        for inst in computation.instructions
        if inst.is_a("add", "multiply", "tanh", "subtract")
    ]
    name = data.draw(st.sampled_from(lines))
    swaps = {"add": "subtract", "multiply": "add", "tanh": "negate", "subtract": "multiply"}
    text = re.sub(
        rf"(%{re.escape(name)} = \S+ )(\w+)\(",
        lambda found: f"{found.group(1)}{swaps[found.group(2)]}(",
        module.to_text(large_constants=True),
        count=1,
    )
    other = hloc.parse(text)
    assert not diff_modules(module, other).is_empty
    assert module_hash(other) != module_hash(module)


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("s = f32[] add(p, q)", "s = f32[] add(q, p)"),
        ("constant({1,2,3,4})", "constant({1,2,3,5})"),
        ("constant(0)", "constant(-0)"),
        ("dimensions={1}\n  y", 'dimensions={1}, frontend_attributes={a="b"}\n  y'),
        ("n = f32[8,4] negate(y)", "n = f32[8,4] negate(y), control-predecessors={x}"),
        ("n = f32[8,4] negate", "n = f32[8,4]{0,1} negate"),
        ("HloModule m", "HloModule m, replica_count=2"),
        ("t = f32[8,4] tanh(n)", "d = f32[8,4] tanh(y)\n  t = f32[8,4] tanh(n)"),
    ],
)
def test_every_other_difference_counts(change: str, to: str) -> None:
    new = TEXT.replace(change, to)
    assert new != TEXT
    assert hash_of(new) != hash_of(TEXT)


def test_equal_instructions_are_told_apart_by_their_users() -> None:
    """One tanh used twice is not two used once each, nor is it two of which one is used twice."""
    body = """ENTRY e { x = f32[4] parameter(0) a = f32[4] tanh(x) b = f32[4] tanh(x)
      p = f32[4] negate({0}) q = f32[4] abs({1}) r = f32[4] sine({2})
      ROOT t = (f32[4], f32[4], f32[4]) tuple(p, q, r) }"""
    texts = {
        uses: body.replace("{0}", uses[0]).replace("{1}", uses[1]).replace("{2}", uses[2])
        for uses in ("aaa", "aab", "aba", "bba", "bab")
    }
    hashes = {uses: hash_of(text) for uses, text in texts.items()}
    assert hashes["aab"] == hashes["bba"], "which of the two is called a does not count"
    assert hashes["aba"] == hashes["bab"]
    assert len(set(hashes.values())) == 3


def test_layouts_are_ignored_like_in_a_diff() -> None:
    new = TEXT.replace("n = f32[8,4] negate", "n = f32[8,4]{0,1} negate")
    assert diff_modules(hloc.parse(TEXT), hloc.parse(new), DiffOptions(layouts=False)).is_empty
    assert hash_of(new, HashOptions(layouts=False)) == hash_of(TEXT, HashOptions(layouts=False))


def test_without_shapes_a_recompilation_is_the_same_module() -> None:
    def program(rows: int, dtype: str = "f32", opcode: str = "tanh") -> str:
        return f"""add {{ p = {dtype}[] parameter(0) q = {dtype}[] parameter(1)
            ROOT s = {dtype}[] add(p, q) }}
        ENTRY e {{ x = {dtype}[{rows},4] parameter(0) t = {dtype}[{rows},4] {opcode}(x)
          z = {dtype}[] constant(0) r = {dtype}[4] reduce(t, z), dimensions={{0}}, to_apply=add
          n = {dtype}[] constant({rows}) b = {dtype}[4] broadcast(n), dimensions={{}}
          s = {dtype}[1,4] slice(x), slice={{[{rows - 1}:{rows}], [0:4]}}
          d = {dtype}[4] divide(r, b) ROOT u = ({dtype}[4], {dtype}[1,4]) tuple(d, s) }}"""

    assert hash_of(program(8)) != hash_of(program(9))
    assert hash_of(program(8), HashOptions(shapes=False)) != hash_of(
        program(9), HashOptions(shapes=False)
    ), "the divisor of a mean is a constant"
    assert hash_of(program(8), NO_SHAPES) == hash_of(program(9), NO_SHAPES)
    assert hash_of(program(8), NO_SHAPES) != hash_of(program(8, "f64"), NO_SHAPES)
    assert hash_of(program(8), NO_SHAPES) != hash_of(program(8, opcode="sine"), NO_SHAPES)


def test_long_modules_need_no_recursion() -> None:
    assert hash_of(chain(4_000)) == hash_of(chain(4_000))
    assert hash_of(chain(4_000)) != hash_of(chain(4_000, 2_000))


def test_the_command_prints_digest_and_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (
        ("a", TEXT),
        ("b", TEXT.replace("tanh", "sine")),
        ("c", str(hloc.parse(TEXT))),
    ):
        (tmp_path / f"{name}.hlo").write_text(text)
    files = [str(tmp_path / f"{name}.hlo") for name in "abc"]
    assert main(["hash", *files]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows] == files
    assert rows[0][0] == rows[2][0] != rows[1][0]
    assert re.fullmatch("[0-9a-f]{32}", rows[0][0])
    assert main(["hash", *files, str(tmp_path / "none.hlo")]) == 1
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "none.hlo" in captured.err


def test_constants_that_a_dump_left_out_are_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\nENTRY e { ROOT c = f32[100] constant({...}) }\n")
    assert main(["hash", str(path)]) == 0
    assert "1 constant left out" in capsys.readouterr().err
