"""What the page is told of a module, its states, single rewrites, runs and code."""

from typing import Any

import pytest

from hloc.web.answers import FORMS, Answerer
from hloc.web.questions import ASKED, read_question

TEXT = """HloModule m

ENTRY e {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[8] broadcast(zero), dimensions={}
  n = f32[8] negate(x)
  p = f32[8] negate(n)
  s = f32[8] subtract(p, zeros)
  m = f32[8] multiply(s, s)
  ROOT r = f32[8] add(m, x)
}
"""
PASSES = "algebraic-simplifier,fusion,cse"
LOOP = """HloModule m
c { s = s32[] parameter(0) ROOT t = pred[] constant(true) }
b { s = s32[] parameter(0) ROOT n = s32[] negate(s) }
ENTRY e { x = s32[] parameter(0) ROOT w = s32[] while(x), condition=c, body=b }
"""


@pytest.fixture(scope="module")
def answerer() -> Answerer:
    return Answerer()


def ask(answerer: Answerer, what: str, **more: Any) -> dict[str, Any]:
    question = {"ask": what, "text": TEXT, "pipeline": PASSES, **more}
    return answerer.answer(read_question(question))


def walk(answerer: Answerer, **more: Any) -> dict[str, Any]:
    """Return the whole walk, which comes in parts."""
    answer = ask(answerer, "walk", **more)
    while not answer["done"]:
        rows = answer["passes"]
        answer = ask(answerer, "walk", known=len(rows), **more)
        answer["passes"] = rows + answer["passes"]
    return answer


def test_a_good_text_is_counted(answerer: Answerer) -> None:
    assert ask(answerer, "check") == {"name": "m", "instructions": 8, "computations": 1}


def test_a_fault_has_its_place_its_code_and_advice(answerer: Answerer) -> None:
    (fault,) = ask(answerer, "check", text=TEXT.replace("negate(n)", "negat(n)"))["faults"]
    assert (fault["line"], fault["column"], fault["length"]) == (8, 14, 5)
    assert fault["code"] == "HLOC0104"
    assert fault["message"] == "unknown opcode: negat; did you mean negate?"
    assert fault["text"].splitlines()[2].endswith("^^^^^")


def test_faults_are_reported_up_to_a_number(answerer: Answerer) -> None:
    lines = "".join(f"  a{i} = f32[] parameter(0), wrong=1\n" for i in range(90))
    faults = ask(answerer, "check", text=f"HloModule m\nENTRY e {{\n{lines}}}\n")["faults"]
    assert len(faults) == 51
    assert faults[-1]["message"].startswith("and ")


def test_a_walk_lists_every_run_of_a_pass(answerer: Answerer) -> None:
    answer = walk(answerer)
    names = [row["pass"] for row in answer["passes"]]
    assert names == ["algebraic-simplifier", "fusion", "cse"]
    first = answer["passes"][0]
    assert first["state"] == 1
    assert dict(first["rules"])["algebraic-simplifier/negate-negate"] == 1
    assert answer["first"]["instructions"] == 8


def test_a_state_is_described_by_identity_with_rule_law_and_proof(answerer: Answerer) -> None:
    answer = ask(answerer, "state", state=1)
    by_name = {rule["by"].partition("/")[2]: rule for rule in answer["rules"]}
    assert by_name["negate-negate"]["law"].startswith("negate(negate(x)) → x")
    assert by_name["negate-negate"]["proof"]
    (row,) = [row for row in answer["rows"] if "multiply" in row[2]]
    assert row[0] == "⇄"
    assert row[1:3] == ["m = f32[8] multiply(s, s)", "m = f32[8] multiply(x, x)"]
    assert answer["marks"]["⇄"] == "rewired"


def test_single_rewrites_lead_from_one_state_to_the_next(answerer: Answerer) -> None:
    rewrites = ask(answerer, "rewrites", state=1)["rewrites"]
    assert len(rewrites) > 1
    counts = []
    for number, row in enumerate(rewrites, 1):
        answer = ask(answerer, "state", state=1, rewrite=number)
        assert [rule["by"] for rule in answer["rules"]] == [row["by"]]
        counts.append(tuple(answer["instructions"]))
    ends = [after for _, after in counts]
    assert [before for before, _ in counts] == [8, *ends[:-1]]
    assert ends[-1] == ask(answerer, "state", state=1)["instructions"][1]
    last = ask(answerer, "text", state=1, rewrite=len(rewrites))
    assert last == ask(answerer, "text", state=1)


def test_rewrites_may_be_asked_for_in_any_order(answerer: Answerer) -> None:
    total = ask(answerer, "rewrites", state=1)["total"]
    backwards = [ask(Answerer(), "state", state=1, rewrite=n) for n in range(total, 0, -1)]
    forwards = [ask(answerer, "state", state=1, rewrite=n) for n in range(1, total + 1)]
    assert backwards[::-1] == forwards


def test_a_state_can_be_compared_with_the_input(answerer: Answerer) -> None:
    answer = ask(answerer, "state", state=2, whole=True)
    assert answer["instructions"] == [8, 5]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"state": 9}, "there is no state 9; the last one is 2"),
        ({"state": -1}, "there is no state -1"),
        ({"state": 1, "rewrite": 99}, "state 1 was made by"),
        ({"state": 0, "rewrite": 1}, "no pass led to"),
        ({"pipeline": "foo"}, "there is no pass 'foo'"),
        ({"text": ""}, "empty"),
    ],
)
def test_unknown_names_are_reported(answerer: Answerer, question: Any, words: str) -> None:
    (fault,) = ask(answerer, "state", **question)["faults"]
    assert words in fault["message"]


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form != "llvm-ir-opt" and form != "asm"]
)
def test_a_state_has_later_forms(answerer: Answerer, form: str) -> None:
    answer = ask(answerer, "text", state=2, form=form)
    sign = "define" if form == "llvm-ir" else "HloModule m"
    assert sign in answer["text"]
    assert answer["left"] == 0


def test_looking_at_a_state_changes_no_other(answerer: Answerer) -> None:
    before = walk(answerer)
    for state in (2, 1, 0):
        ask(answerer, "cost", state=state)
        ask(answerer, "text", state=state, form="llvm-ir")
    assert walk(answerer) == before
    assert "there is no state 3" in ask(answerer, "state", state=3)["faults"][0]["message"]


def test_a_graph_is_a_page_with_what_changed(answerer: Answerer) -> None:
    html = ask(answerer, "graph", state=1)["html"]
    assert html.startswith("<!doctype html>")
    assert '"changed":true' in html


def test_a_state_is_verified_against_the_input(answerer: Answerer) -> None:
    answer = ask(answerer, "verify", state=2)
    assert answer["ok"]
    assert answer["text"].startswith("s0 ≡ s2 on 24 input sets")


def test_costs_name_instructions(answerer: Answerer) -> None:
    answer = ask(answerer, "cost", state=1)
    assert answer["rows"][0][0] == "r"


def test_memory_is_a_chart_and_the_report_of_its_buffers(answerer: Answerer) -> None:
    text = TEXT.replace("ROOT r = ", "r = ").replace(
        "add(m, x)\n", "add(m, x)\n  ROOT t = f32[8] reverse(r), dimensions={0}\n"
    )
    answer = ask(answerer, "memory", text=text, pipeline="cse")
    arena = next(line.split() for line in answer["text"].splitlines() if "arena" in line)
    assert int(arena[1]) >= 32
    assert "<svg" in answer["html"]
    assert " f32[8]" in answer["html"]


def test_a_roofline_has_the_kernels_of_the_state_with_modelled_times(answerer: Answerer) -> None:
    answer = ask(answerer, "roofline", state=1)
    assert {line.split()[0] for line in answer["text"].splitlines()[1:3]} == {"m", "r"}
    assert "modelled times" in answer["text"]
    assert "m multiply" in answer["html"]


def test_a_state_is_compared_with_another_module_whatever_its_names(answerer: Answerer) -> None:
    other = TEXT.replace("p = ", "q = ").replace("(p,", "(q,")
    same = ask(answerer, "compare", other=other)
    assert (same["rows"], same["instructions"]) == ([], [8, 8])
    other = TEXT.replace("add(m, x)", "maximum(m, x)")
    answer = ask(answerer, "compare", other=other)
    assert any("maximum(m, x)" in row[2] for row in answer["rows"])
    (fault,) = ask(answerer, "compare", other=TEXT.replace("add(", "ad("))["faults"]
    assert fault["code"] == "HLOC0104"
    assert fault["text"].startswith("the other module:11:")


def test_a_loop_without_end_can_be_stepped_through(answerer: Answerer) -> None:
    assert ask(answerer, "walk", text=LOOP, pipeline="-O2")["name"] == "m"


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ([], "expected an object"),
        ({"ask": "open", "text": "", "path": "/etc/passwd"}, "no field 'path'"),
        ({"ask": "open", "text": ""}, "asks for none of"),
        ({"ask": "check"}, "lacks text"),
        ({"ask": "check", "text": 3}, "text is a value of another type"),
        ({"ask": "state", "text": "", "state": True}, "state is a value of another type"),
        (
            {"ask": "walk", "text": "", "pipeline": "x" * 5000},
            "pipeline has more than 4000",
        ),
        ({"ask": "run", "text": "", "inputs": "x" * 200_001}, "inputs has more than 200000"),
        ({"ask": "run", "text": "", "seed": 1 << 40}, "seed is out of range"),
    ],
)
def test_a_question_of_another_form_is_refused(question: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_question(question)


def test_every_kind_of_request_is_answered(answerer: Answerer) -> None:
    for what in ASKED:
        if what != "run":  # starts a process: tests/web runs it
            assert "faults" not in ask(answerer, what, state=1, other=TEXT) or what == "state"
