"""The checker finds every kind of fault, ends whatever it runs, and says what to look at."""

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from hloc.errors import HloError
from hloc.learn import trial
from hloc.learn.answers import is_same
from hloc.learn.catalogue import Lesson, find_lesson
from hloc.learn.check import check_file
from hloc.learn.plan import parse_goal, read_plan
from hloc.learn.report import Finding, Report, as_json, as_junit, as_text
from hloc.learn.sandbox import check_in_child
from hloc.learn.scaffold import new_lesson
from hloc.opt.registry import forget_registered
from tests.waiting import PATIENCE, wait_until

HEAD = '''"""A try."""

from hloc.opt import ModulePass, Pass, any_, const, rule
from hloc.opt import ops as o


'''


@pytest.fixture
def lesson(tmp_path: Path) -> Iterator[Lesson]:
    yield find_lesson(str(new_lesson(str(tmp_path / "small"))))
    forget_registered()


def told(lesson: Lesson, body: str, tmp_path: Path) -> str:
    """Return what the checker finds wrong with a file."""
    file = tmp_path / "try.py"
    file.write_text(HEAD + body)
    report = check_file(lesson, str(file))
    assert not report.passed
    return "\n".join(f"{f.name}: {f.text}" for f in report.findings if not f.ok)


def rule_text(body: str, pattern: str = 'o.negate(any_("x"), name="n")') -> str:
    return (
        f'@rule({pattern})\ndef law(m, b):\n    """A law."""\n    {body}\n\np = Pass("p", [law])\n'
    )


FAULTS = {
    "changes the answer": (
        rule_text("return m.x"),
        "rewrite 1, rule law (try.py:7), changes the answer:\n"
        "  - minus = f32[4] negate(x)\n  + ROOT x = f32[4] parameter(0)\nout0[0] is ",
    ),
    "adds for ever": (
        rule_text("return b.negate(b.negate(b.negate(m.x)))"),
        "comes to an end: p stopped in main: rule law and others keep firing",
    ),
    "another shape": (
        rule_text("return b.constant(1.0)"),
        "rule law (try.py:7) returned constant of shape f32[], expected f32[4]",
    ),
    "a name that is not there": (
        rule_text("return m.y"),
        "rule law (try.py:7) failed in line 10: AttributeError: the pattern names no 'y'; "
        "it has n, x, root",
    ),
    "no instruction": (rule_text("return 1"), "returned int, expected an instruction or None"),
    "adds and declines": (
        rule_text("b.negate(m.x)"),
        "added instructions and then returned None",
    ),
    "does nothing": (rule_text("return None"), "goals: ops.negate is 2, wanted <= 0"),
    "no pass": ("x = 1\n", "the file has no Pass(...)"),
    "no docstring of a rule": (
        "@rule(o.negate())\ndef law(m): return None\n",
        "rule law has no docstring",
    ),
    "does not load": ("def f(:\n", "try.py:7: SyntaxError"),
    "lies": (
        "class P(ModulePass):\n    name = 'p'\n    def run(self, module, context):\n"
        "        return True\n",
        "pass p says changed, but the change log has 0 new events",
    ),
    "breaks the module": (
        "from hloc.dtypes import S32\nfrom hloc.shapes import ArrayShape\n"
        "class P(ModulePass):\n    name = 'p'\n    def run(self, module, context):\n"
        "        with context.rewriting(module, 'p'):\n"
        "            x = module.entry.instructions[1]\n"
        "            module.entry.set_shape(x, ArrayShape(S32, (4,)))\n        return True\n",
        "rewrite 1, pass p, leaves an invalid module",
    ),
    "never at rest": (
        "class P(ModulePass):\n    name = 'p'\n    def run(self, module, context):\n"
        "        with context.rewriting(module, 'p'):\n"
        "            module.entry.rename(module.entry.root, 'r')\n        return True\n",
        "a second run changes the module again",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_reported(case: str, lesson: Lesson, tmp_path: Path) -> None:
    body, expected = FAULTS[case]
    assert expected in told(lesson, body, tmp_path)


EXAMPLE = """@rule(o.negate(o.negate(any_("x"))), example='''
HloModule m
ENTRY e { x = f32[4] parameter(0)  n = f32[4] OPCODE(x)  ROOT r = f32[4] negate(n) }
''')
def law(m):
    '''-(-x) = x.'''
    return m.x

p = Pass("p", [law])
"""


def test_the_example_of_a_rule_is_run(lesson: Lesson, tmp_path: Path) -> None:
    file = tmp_path / "try.py"
    file.write_text(HEAD + EXAMPLE.replace("OPCODE", "negate"))
    report = check_file(lesson, str(file))
    assert report.passed
    assert Finding("the example of rule law (try.py:7)", True) in report.findings
    text = told(lesson, EXAMPLE.replace("OPCODE", "abs"), tmp_path)
    assert text == "the example of rule law (try.py:7): the rule does not fire in it"
    wrong = EXAMPLE.replace("return m.x", "return m.root.operands[0]").replace("OPCODE", "negate")
    assert "the example of rule law (try.py:7): out0[0] is" in told(lesson, wrong, tmp_path)
    broken = EXAMPLE.replace("OPCODE", "nagate")
    assert "unknown opcode: nagate" in told(lesson, broken, tmp_path)


def test_a_pass_without_an_end_is_stopped(
    lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.3)
    body = (
        "class P(ModulePass):\n    name = 'p'\n    def run(self, module, context):\n"
        "        while True:\n            pass\n"
    )
    assert "it takes more than 0.3 s" in told(lesson, body, tmp_path)
    for_ever = body.replace("pass\n", "with context.rewriting(module, 'p'): pass\n")
    monkeypatch.setattr(trial, "SECONDS", PATIENCE)
    assert "no end after 2,000 rewrites; the last was p" in told(lesson, for_ever, tmp_path)


def test_the_score_compares_costs_with_the_reference(lesson: Lesson, tmp_path: Path) -> None:
    plan = lesson.folder / "check.toml"
    plan.write_text("[[module]]\nfile = 'input.hlo'\n")
    file = tmp_path / "try.py"
    text = lesson.read("reference.py")
    file.write_text(text.replace("(m):", "(m, b):").replace("return m.x", "return b.copy(m.x)"))
    report = check_file(lesson, str(file))
    assert report.passed
    assert report.score == 0  # the reference costs nothing
    file.write_text(text)
    assert check_file(lesson, str(file)).score == 100
    lesson.folder.joinpath("reference.py").unlink()
    assert check_file(lesson, str(file)).score == 100


def test_a_new_lesson_works_as_it_is(lesson: Lesson) -> None:
    report = check_file(lesson, str(lesson.folder / "reference.py"))
    assert report.passed
    assert report.score == 100
    assert not check_file(lesson, str(lesson.folder / "exercise.py")).passed
    with pytest.raises(HloError, match=r"cannot make .*file exists"):
        new_lesson(str(lesson.folder))
    with pytest.raises(HloError, match="kebab-case"):
        new_lesson("My Lesson")


ENDS = {
    "for ever": ("while True: pass\n", "it takes more than 3 s"),
    "crash": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "crashed (signal 11)"),
    "exit": ("import sys\nprint('bye')\nsys.exit(0)\n", "ended without a result\nbye"),
    "memory": ("x = bytearray(1 << 40)\n", "MemoryError"),
}


FLOOD = "while True: print('x' * 100_000)\n"
SWALLOWS = """while True:
    try:
        while True: pass
    except BaseException:
        pass
"""
EATS = """import numpy as np
kept = []
while True:
    kept.append(np.empty(64 << 20, np.uint8))  # reserved, not written, which would take seconds
"""

LIMITS = {
    "output": (FLOOD, "OSError: [Errno 27]"),
    "output in a line": ("while True: print('x' * 100_000, end='')\n", "OSError: [Errno 27]"),
    "output of forked processes": (
        f"import os\nos.fork(); os.fork()\n{FLOOD}",
        "OSError: [Errno 27]",
    ),
    "a file": ("open('big', 'wb').write(bytes(1 << 25))\n", "OSError: [Errno 27]"),
    "a long message": ("raise ValueError('x' * 10_000_000)\n", "more letters"),
    "a loop that swallows everything": (SWALLOWS, "it takes more than 3 s"),
    "a loop within a function of C": ("sum(range(1 << 60))\n", "it takes more than 3 s"),
    "a wait": ("import time\ntime.sleep(1000)\n", "it takes more than 3 s"),
    "a question": ("input()\n", "EOFError"),
    "memory bit by bit": (EATS, "MemoryError"),
    "memory of NumPy": ("import numpy as np\nnp.ones(1 << 40)\n", "MemoryError"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux keeps them")
@pytest.mark.parametrize("case", LIMITS)
def test_a_child_keeps_its_limits(
    case: str, lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    body, expected = LIMITS[case]
    file = tmp_path / "try.py"
    file.write_text(HEAD + body)
    seconds = 3 if "3 s" in expected else PATIENCE
    report = check_in_child(lesson, str(file), wall_seconds=seconds)
    assert not report.passed
    told = report.findings[0].text
    assert expected in told
    assert len(told) < 10_000


def is_running(pid: int) -> bool:
    """Tell whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("end", ["while True: time.sleep(1)", "raise SystemExit", "pass"])
def test_what_a_child_has_started_ends_with_it(end: str, lesson: Lesson, tmp_path: Path) -> None:
    file, told = tmp_path / "try.py", tmp_path / "pid"
    file.write_text(
        f"{HEAD}import subprocess, sys, time\n"
        "waits = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        f"with open({str(told)!r}, 'w') as out: out.write(str(waits.pid))\n{end}\n"
    )
    check_in_child(lesson, str(file), wall_seconds=15 if "while" in end else PATIENCE)
    wait_until(lambda: not is_running(int(told.read_text())), "the end of its child")


@pytest.mark.parametrize("case", ENDS)
def test_a_child_is_ended(case: str, lesson: Lesson, tmp_path: Path) -> None:
    body, expected = ENDS[case]
    file = tmp_path / "try.py"
    file.write_text(HEAD + body)
    report = check_in_child(lesson, str(file), wall_seconds=3 if case == "for ever" else PATIENCE)
    assert not report.passed
    assert expected in report.findings[0].text


def test_a_child_finds_what_the_checker_finds(lesson: Lesson) -> None:
    file = str(lesson.folder / "reference.py")
    assert check_in_child(lesson, file) == check_file(lesson, file)
    lesson.folder.joinpath("check.toml").write_text("kind = 'dance'")
    with pytest.raises(HloError, match="kind is one of pass, answers, schedule, not 'dance'"):
        check_in_child(lesson, file)


REPORTS = [
    Report("a.py", "small", (Finding("loads", True), Finding("goals <&>", False, "1 < 2\nhint"))),
    Report("b.py", "small", (Finding("loads", True),), 90),
]


def test_reports_in_three_forms() -> None:
    assert as_text(REPORTS).splitlines() == [
        "a.py: lesson small: not yet",
        "  ok  loads",
        "  NO  goals <&>",
        "        1 < 2",
        "        hint",
        "b.py: lesson small: passed, score 90 of 100",
        "  ok  loads",
    ]
    table = json.loads(as_json(REPORTS))
    assert [(row["who"], row["passed"], row["score"]) for row in table] == [
        ("a.py", False, 0),
        ("b.py", True, 90),
    ]
    suites = list(ET.fromstring(as_junit(REPORTS)))
    assert [suite.get("failures") for suite in suites] == ["1", "0"]
    failure = suites[0].find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "1 < 2"


@pytest.mark.parametrize(
    ("answer", "right", "same"),
    [
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        (-0.0, -0.0, True),
        (0, 0.0, True),
        (False, 0.0, False),
        (1, True, False),
        ("f32[4, 6]", "f32[4,6]", True),
        ("a, b", {"b", "a"}, True),
        (["%a"], {"a"}, True),
        (["a"], {"a", "b"}, False),
        (["a", "b"], ["b", "a"], False),
        (0.1, 0.10000000149011612, True),
        ("128", 128, False),
    ],
)
def test_answers_are_compared_by_what_they_mean(answer: object, right: object, same: bool) -> None:
    assert is_same(answer, right) is same


def test_goals_are_read_and_faults_in_them_reported(lesson: Lesson) -> None:
    assert parse_goal("must_contain custom-call") == parse_goal("ops.custom-call >= 1")
    assert parse_goal("instrs <= 12").fault(13) == "instrs is 13, wanted <= 12"
    faults = (("instrs < 2", "expected a goal"), ("size <= 2", "unknown quantity 'size'"))
    for text, message in faults:
        with pytest.raises(HloError, match=message):
            parse_goal(text)
    plan = lesson.folder / "check.toml"
    for text, message in (
        ("kind = ", r"check\.toml"),
        ("[[module]]\nname = 'x'", "lacks 'file'"),
        ("[[question]]\nkey = 'x'", "lacks 'ask'"),
        ("module = [1]", r"write \[\[module\]\] above each module"),
        ("compare = 'same'\n[[module]]\nfile = 'input.hlo'", "compare is exact, tolerance or"),
        ("[[module]]\nfile = 'none.hlo'", "cannot read .*none.hlo"),
    ):
        plan.write_text(text)
        with pytest.raises(HloError, match=message):
            read_plan(lesson)


def test_a_module_is_tried_in_every_element_type() -> None:
    tasks = read_plan(find_lesson("6")).tasks
    names = [task.name for task in tasks if task.name.startswith("whole numbers")]
    assert names == ["whole numbers, s32", "whole numbers, u8", "whole numbers, s64"]
    assert {str(task.module().entry.root.shape) for task in tasks[1:4]} == {
        "s32[3,4]{1,0}",
        "u8[3,4]{1,0}",
        "s64[3,4]{1,0}",
    }


def test_orders_are_judged(tmp_path: Path) -> None:
    lesson = find_lesson("11")
    cases = {
        "return computation.instructions[::-1]": "stands before its operand",
        "return computation.instructions[:-2]": "missing",
        "return [computation.root] * 2": "stands before its operand",
        "return [1]": "1 is no instruction of main",
        "1 / 0": "schedule failed: ZeroDivisionError",
    }
    for body, expected in cases.items():
        text = f"def schedule(computation):\n    {body}\n"
        assert expected in told(lesson, text, tmp_path)
    forget_registered()
