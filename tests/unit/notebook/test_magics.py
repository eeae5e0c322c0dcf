"""`%hlo` and `%%hlo` without IPython: options, what is shown, faults as text, names as HTML."""

import re
from pathlib import Path

import pytest

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.notebook.magic_options import MagicOptions, read_options
from hloc.notebook.magics import MagicError, hlo_magic
from hloc.report.module_tools import Change, Graph

TEXT = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  ROOT c = f32[4] exponential(b)
}
"""


def shown(line: str, cell: str | None = TEXT, variables: dict[str, object] | None = None) -> list:  # type: ignore[type-arg]
    found: list[object] = []
    hlo_magic(line, cell, {} if variables is None else variables, found.append)
    return found


def fault(line: str, cell: str | None = TEXT, variables: dict[str, object] | None = None) -> str:
    with pytest.raises(MagicError) as raised:
        shown(line, cell, variables)
    (text,) = raised.value._render_traceback_()
    assert text == str(raised.value)
    return text


def test_options() -> None:
    assert read_options("", is_cell=True) == MagicOptions()
    assert read_options("-O2 --graph --diff --name m", is_cell=True) == MagicOptions(
        passes="-O2", name="m", views=("diff", "graph")
    )
    assert read_options("--passes='cse, fix(dce)' m", is_cell=False) == MagicOptions(
        "m", "cse, fix(dce)"
    )


@pytest.mark.parametrize(
    ("line", "is_cell", "message"),
    [
        ("--difference", True, "unrecognized arguments: --difference"),
        ("--pass=cse", True, "unrecognized arguments: --pass=cse"),
        ("-O2 --passes=cse", True, "not allowed with argument"),
        ("m", True, "unexpected word 'm'"),
        ("", False, "no module"),
        ("m --name=a.b", False, "expected the name of a variable"),
        ("m --name=class", False, "expected the name of a variable"),
        ("'m", False, "no closing quotation"),
    ],
)
def test_options_that_are_refused(line: str, is_cell: bool, message: str) -> None:
    with pytest.raises(HloError, match=re.escape(message)):
        read_options(line, is_cell=is_cell)


def test_a_cell_without_options_shows_the_module() -> None:
    (module,) = shown("")
    assert isinstance(module, Module)
    assert module.instruction_count == 4


def test_a_name_becomes_a_variable_after_the_passes() -> None:
    variables: dict[str, object] = {}
    assert shown("-O2 --name=m", TEXT, variables) == []
    module = variables["m"]
    assert isinstance(module, Module)
    assert module.instruction_count == 2
    assert shown("m", None, variables) == [module]
    (change,) = shown("m --passes=dce --diff", None, variables)
    assert change.is_empty


def test_diff_and_graph_show_what_the_passes_changed() -> None:
    change, graph = shown("-O2 --graph --diff")
    assert isinstance(change, Change)
    assert "negate-negate" in str(change)
    assert isinstance(graph, Graph)
    page = graph._repr_html_()
    assert page is not None
    assert "&quot;removed&quot;" in page


def test_run_prints_results_beside_the_evaluator(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("-O2 --run") == []
    told = capsys.readouterr().out
    assert "out0 = f32[4]" in told
    assert "compare with s0 in the evaluator: OK" in told


def test_the_line_magic_takes_text_files_and_what_holds_a_module(tmp_path: Path) -> None:
    class Lowered:
        module = shown("")[0]

    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    variables: dict[str, object] = {"text": TEXT, "lowered": Lowered(), "three": 3}
    assert shown("lowered", None, variables) == [Lowered.module]
    for source in ("text", str(path)):
        (module,) = shown(source, None, variables)
        assert module.instruction_count == 4
    assert "three is no module, but of type int" in fault("three", None, variables)
    assert "did you mean 'lowered'?" in fault("lowerd", None, variables)


def test_a_fault_of_the_text_has_the_line_of_the_notebook_and_a_caret() -> None:
    told = fault("", TEXT.replace("negate(x)", "negat(x)"))
    assert told.splitlines() == [
        "<cell>:6:14: error[HLOC0104]: unknown opcode: negat; did you mean negate?",
        "    6 |   a = f32[4] negat(x)",
        "      |              ^^^^^",
        "explain a code with: hloc explain HLOC0104",
    ]


def test_faults_of_options_and_passes_are_text() -> None:
    assert fault("--passes=nope").startswith("hloc: error: there is no pass 'nope'\n")
    assert fault("--what").splitlines()[-1] == "note: %hlo? lists the options"


def test_a_fault_of_hloc_itself_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("x")

    monkeypatch.setattr(Module, "apply", fail)
    assert "internal error: ZeroDivisionError" in fault("-O2")


def test_a_graph_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.report.module_tools._MOST_DRAWN", 3)
    assert "the module has 4 instructions; graphs are drawn up to 3" in fault("--graph")
