"""The routes of `hloc web`, without a port and without processes."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra hloc[web]")

from hloc.errors import HloError
from hloc.web.answers import Answerer
from hloc.web.app import WebApp
from hloc.web.guard import Guard
from hloc.web.programs import programs_of
from tests.unit.web.asking import TOKEN, Answer, post, request

TEXT = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT n = f32[2] negate(x) }\n"


class InProcess:
    """Answers without a process; `stopped` as one that took too long."""

    def __init__(self, stopped: bool = False) -> None:
        self.answerer = Answerer()
        self.stopped = stopped

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self.stopped:
            raise HloError(f"stopped after {seconds:g} s", notes=("the server goes on",))
        return self.answerer.answer(question)

    def close(self) -> None: ...


@pytest.fixture
def app(tmp_path: Path) -> Guard:
    (tmp_path / "own.hlo").write_text(TEXT)
    (tmp_path / "secret.txt").write_text("secret")
    programs = programs_of([str(tmp_path / "own.hlo")])
    return guarded(WebApp(programs, InProcess(), InProcess()))


def guarded(app: WebApp) -> Guard:
    return Guard(app.starlette(), TOKEN, 8000, 1 << 20)


def get(app: Guard, path: str) -> Answer:
    return request(app, f"/{TOKEN}/{path}")


def test_the_page_and_all_its_files_are_there(app: Guard) -> None:
    page = get(app, "")
    assert page.headers["content-type"].startswith("text/html")
    names = [part.partition('"')[0] for part in page.body.decode().split('"page/')[1:]]
    assert len(names) >= 5
    for name in names:
        assert get(app, f"page/{name}").status == 200
    script = get(app, "page/main.js")
    assert script.headers["content-type"].startswith("text/javascript")


def test_the_page_loads_nothing_from_elsewhere(app: Guard) -> None:
    folder = Path(__file__).parents[3] / "hloc/web/page"
    for file in folder.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text.replace("http-equiv", ""), file.name


@pytest.mark.parametrize(
    "path",
    [
        "page/../app.py",
        "page/..%2fapp.py",
        "page/%2e%2e/app.py",
        "../secret.txt",
        "page//etc/passwd",
        "page/C:\\secret.txt",
        "drawing/../page/main.js",
        "api/programs/own.hlo",
        "api/programs/-1",
        "secret.txt",
    ],
)
def test_no_path_leads_to_another_file(app: Guard, path: str) -> None:
    assert get(app, path).status == 404


def test_programs_are_listed_and_opened_by_number(app: Guard) -> None:
    start = get(app, "api/start").json
    titles = [row["title"] for row in start["programs"]]
    assert titles[0] == "own.hlo"
    assert any(row["group"] == "Lessons" for row in start["programs"])
    assert "negate" in start["highlighting"]["opcodes"]
    assert get(app, "api/programs/0").json["text"] == TEXT
    assert get(app, "api/programs/1").json["text"].startswith(("//", "HloModule"))
    assert get(app, f"api/programs/{len(titles)}").status == 404


def test_a_question_is_answered(app: Guard) -> None:
    answer = post(app, f"/{TOKEN}/api/ask", {"ask": "check", "text": TEXT})
    assert answer.json["instructions"] == 2


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b'{"ask": "open"}'])
def test_an_invalid_request_is_refused_with_a_message(app: Guard, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = request(app, f"/{TOKEN}/api/ask", method="POST", body=body, headers=headers)
    assert answer.status == 400
    assert "cannot read the question" in answer.words


def test_a_graph_is_kept_for_a_frame_that_may_do_nothing_else(app: Guard) -> None:
    question = {"ask": "graph", "text": TEXT, "pipeline": "-O0"}
    address = post(app, f"/{TOKEN}/api/ask", question).json["frame"]
    page = get(app, address)
    assert page.body.startswith(b"<!doctype html>")
    assert "sandbox allow-scripts" in page.headers["content-security-policy"]
    assert get(app, "drawing/other").status == 404


def test_a_module_that_takes_too_long_gets_a_message() -> None:
    app = guarded(WebApp((), InProcess(), InProcess(stopped=True)))
    answer = post(app, f"/{TOKEN}/api/ask", {"ask": "walk", "text": TEXT})
    assert answer.status == 200
    assert answer.words == "stopped after 60 s"


def test_a_dump_is_listed_by_module_and_stage(tmp_path: Path) -> None:
    for stage in ("before_optimizations", "cpu_after_optimizations"):
        (tmp_path / f"module_0007.jit_f.{stage}.txt").write_text(TEXT)
    programs = [p for p in programs_of([str(tmp_path)]) if p.group != "Lessons"]
    assert [(p.group, p.title) for p in programs] == [
        ("module_0007.jit_f", "XLA's passes"),
        ("module_0007.jit_f", "before_optimizations"),
        ("module_0007.jit_f", "cpu_after_optimizations"),
    ]
    assert [p.text() for p in programs] == [TEXT] * 3


DUMP = Path(__file__).parents[2] / "golden" / "dumps" / "cluster"


def test_passes_of_a_dump_are_walked_by_the_number_of_its_module() -> None:
    app = guarded(WebApp(programs_of([str(DUMP)]), InProcess(), InProcess()))
    rows = get(app, "api/start").json["programs"]
    assert [row["replayed"] for row in rows[:2]] == [True, False]

    def asked(what: str, dump: int, **more: int) -> Answer:
        return post(app, f"/{TOKEN}/api/ask", {"ask": what, "text": "", "dump": dump, **more})

    state = asked("state", 0, state=4).json
    assert state["effect"].startswith("kernels 32 → 27")
    assert {by for *_, by in state["rows"] if by} == {"simplification/algsimp"}
    for number in (1, len(rows), 1 << 40):
        assert asked("state", number).words == "there is no such dump"


def test_no_question_names_a_folder(app: Guard) -> None:
    asked = {"ask": "walk", "text": TEXT, "replayed": [str(DUMP), "module_0000.jit_fit"]}
    assert "no field 'replayed'" in post(app, f"/{TOKEN}/api/ask", asked).words


def test_a_relative_path_means_the_same_in_the_folder_of_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "m.pb").write_bytes(b"\x0a\x01m")
    (tmp_path / "dump" / "module_0007.jit_f.before_optimizations.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    programs = [p for p in programs_of(["m.pb", "dump"]) if p.group != "Lessons"]
    monkeypatch.chdir("/")
    assert [Path(p.path).is_file() for p in programs] == [True, True]


def test_a_missing_file_is_reported_before_the_page_opens() -> None:
    with pytest.raises(HloError, match=r"cannot read nowhere\.hlo"):
        programs_of(["nowhere.hlo"])


def test_a_lesson_has_a_page_and_an_exercise_and_a_file_has_none(app: Guard) -> None:
    rows = get(app, "api/start").json["programs"]
    assert [row["lesson"] for row in rows[:2]] == [False, True]
    lesson = get(app, "api/programs/1/lesson").json
    assert "ANSWERS" in lesson["exercise"]
    assert b"<h1>" in get(app, lesson["frame"]).body
    assert get(app, "api/programs/0/lesson").status == 404
    assert post(app, f"/{TOKEN}/api/programs/0/check", {"answer": ""}).status == 404
    assert get(app, "api/programs/1/check").status == 405


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "cannot read the answer"),
        ({"file": "/etc/passwd"}, "cannot read the answer"),
        ({"answer": 3}, "expected the text of an answer"),
        ({"answer": "#" * (300 << 10)}, "an answer has at most 256 KiB"),
    ],
)
def test_an_invalid_answer_is_refused(app: Guard, data: object, words: str) -> None:
    assert post(app, f"/{TOKEN}/api/programs/1/check", data).words == words
