"""`hloc web --classroom`: sessions of students, and hostile ones among them.

What a hostile program tries in a confined process, with the same outside of one, is in
`tests/unit/confinement/`; here it comes through the page.
"""

import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of Unix")
pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")

import uvicorn

from hloc.confinement.forked import Patience
from hloc.learn.catalogue import find_lesson
from hloc.web.classroom import limits
from hloc.web.classroom.work import warm_up
from tests.unit.confinement.confined import unconfined
from tests.unit.web.classes import TEXT, Browser, Class, confined_of, serving
from tests.waiting import PATIENCE, wait_until

LOOP = """HloModule m
c { s = s32[] parameter(0) ROOT t = pred[] constant(true) }
b { s = s32[] parameter(0) ROOT n = s32[] negate(s) }
ENTRY e { x = s32[] parameter(0) ROOT w = s32[] while(x), condition=c, body=b }
"""
HUGE = "HloModule m\nENTRY e { ROOT x = f32[1000000,1000000] iota(), iota_dimension=0 }\n"
HEAD = '"""An answer."""\nimport os, socket, sys\n'
LESSON = "programs"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    folder = tmp_path_factory.mktemp("teacher")
    (folder / "given.hlo").write_text(TEXT)
    (folder / "id").write_text("key")
    os.environ["HLOC_TEST_SECRET"] = "told"
    with serving([str(folder / "given.hlo")]) as found:
        found.told.append(str(folder))
        yield found


@pytest.fixture(scope="module")
def ada(room: Class) -> Browser:
    return room.join("Ada")


@pytest.fixture(scope="module")
def eve(room: Class) -> Browser:
    return room.join("Eve")


def test_all_questions_are_asked_before_there_are_students() -> None:
    *answers, faulty = warm_up()
    assert not [answer for answer in answers if answer.get("faults")]
    assert "unknown opcode: dat" in faulty["faults"][0]["message"]


# ------------------------------------------------------------------ sessions


def test_a_student_joins_works_and_is_named_to_the_teacher(room: Class, ada: Browser) -> None:
    assert any(line.startswith("Ada joined from 127.0.0.1 (") for line in room.told)
    assert ada.request("GET", "/desk/").body.startswith(b"<!doctype html>")
    programs = ada.request("GET", "/desk/api/start").json["programs"]
    assert [row["title"] for row in programs[:2]] == ["given.hlo", "1. What a program is"]
    assert ada.request("GET", "/desk/api/programs/0").json["text"] == TEXT
    assert ada.ask("check")["instructions"] == 2
    assert ada.ask("walk")["name"] == "m"
    assert ada.ask("run", inputs="x=[3,4]")["text"].startswith("out0 = f32[2] {-3, -4}")
    assert ada.ask("verify")["ok"]
    assert "hloc_entry" in ada.ask("text", form="asm")["text"]
    assert "neg" in ada.ask("kernel")["ptx"]


def test_a_program_of_several_devices_is_run(ada: Browser) -> None:
    text = find_lesson("devices").read("input.hlo")
    assert ada.ask("run", text)["ok"], ada.ask("run", text)


def test_an_answer_to_a_lesson_is_checked(room: Class, ada: Browser) -> None:
    lesson = find_lesson(LESSON)
    wrong = ada.post("/desk/api/programs/1/check", {"answer": lesson.read("exercise.py")}).json
    assert (wrong["passed"], wrong["findings"][2]["text"]) == (False, "no answer yet")
    right = ada.post("/desk/api/programs/1/check", {"answer": lesson.read("reference.py")}).json
    assert (right["passed"], right["score"]) == (True, 100)
    assert "Ada passed lesson 1. What a program is, score 100" in room.told


def test_a_session_has_a_cookie_that_scripts_and_other_sites_cannot_use(room: Class) -> None:
    answer = Browser(room.port).post(f"/{room.token}/api/join", {"name": "Bob"})
    cookie = answer.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.split("; ")[1:])


def test_a_student_who_has_joined_is_led_to_the_page_and_joins_no_second_time(
    room: Class, ada: Browser
) -> None:
    answer = ada.request("GET", f"/{room.token}/")
    assert (answer.status, answer.headers["location"]) == (303, "/desk/")
    again = ada.post(f"/{room.token}/api/join", {"name": "Someone else"})
    assert again.headers["set-cookie"].partition(";")[0] == ada.cookie
    assert not any("Someone else" in line for line in room.told)


@pytest.mark.parametrize("cookie", ["", "hloc-{port}=", "hloc-{port}=guess", "hloc-1={secret}"])
def test_without_the_cookie_of_a_session_nothing_is_answered(
    cookie: str, room: Class, ada: Browser
) -> None:
    stranger = Browser(room.port)
    stranger.cookie = cookie.format(port=room.port, secret=ada.cookie.partition("=")[2])
    for path in ("/desk/", "/desk/api/start", "/desk/page/main.js"):
        answer = stranger.request("GET", path)
        assert (answer.status, answer.words) == (
            401, "your session has ended; open the class link again"
        )  # fmt: skip
    assert stranger.post("/desk/api/ask", {"ask": "check", "text": TEXT}).status == 401
    assert ada.request("GET", "/desk/api/start").status == 200  # with it, it is


@pytest.mark.parametrize("path", ["/", "/x/", "/x/api/join", "/desk", "//desk/", "/%2e/desk/"])
def test_without_the_class_link_nobody_joins(path: str, room: Class) -> None:
    answer = Browser(room.port).post(path, {"name": "Mallory"})
    assert (answer.status, "token" in answer.words) == (403, True)
    assert not any("Mallory" in line for line in room.told)


def test_a_drawing_of_one_student_is_not_shown_to_another(ada: Browser, eve: Browser) -> None:
    frame = ada.ask("graph")["frame"]
    assert ada.request("GET", f"/desk/{frame}").status == 200
    assert eve.request("GET", f"/desk/{frame}").status == 404


@pytest.mark.parametrize("name", ["", "   ", "\x1b\x07\n", 3, None, ["Ada"]])
def test_a_student_without_a_name_does_not_join(name: object, room: Class) -> None:
    answer = Browser(room.port).post(f"/{room.token}/api/join", {"name": name})
    assert "set-cookie" not in answer.headers or "?" in room.told[-1]


def test_a_name_cannot_act_on_the_terminal_of_the_teacher(room: Class) -> None:
    room.join("\x1b[2J\x1b]0;own\x07\u202eEve\r\nBob joined " + "x" * 500)
    line = room.told[-1]
    assert line.isprintable()
    assert line.startswith("?[2J")
    assert len(line) < 120


# ------------------------------------------------------------------ requests of strangers


HOSTS = {"evil.example": 403, "evil.example:{port}": 403, "127.0.0.1:1": 403, "": 403}


@pytest.mark.parametrize("host", [*HOSTS, "127.0.0.1:{port}", "localhost:{port}"])
def test_a_name_that_was_made_to_point_here_gets_nothing(
    host: str, room: Class, ada: Browser
) -> None:
    expected = HOSTS.get(host, 200)
    for path in ("/desk/api/start", "/desk/", f"/{room.token}/page/join.js"):
        assert ada.request("GET", path, host=host.format(port=room.port)).status == expected


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"},
        {"content_type": "text/plain"}, {"content_type": "application/x-www-form-urlencoded"},
    ],
)  # fmt: skip
def test_a_page_of_another_site_can_do_nothing_in_the_name_of_a_student(
    headers: dict[str, str], room: Class, ada: Browser
) -> None:
    question = {"ask": "check", "text": TEXT}
    assert ada.post("/desk/api/ask", question, **headers).status in (403, 415)
    assert Browser(room.port).post(f"/{room.token}/api/join", {"name": "M"}, **headers).status in (
        403, 415
    )  # fmt: skip
    assert ada.post("/desk/api/ask", question, origin=f"http://127.0.0.1:{room.port}").json


@pytest.mark.parametrize(
    "path",
    [
        "page/../limits.py", "page/..%2f..%2flimits.py", "page/%2e%2e/limits.py",
        "page//etc/passwd", "drawing/../../etc/passwd", "api/programs/-1", "api/programs/99",
        "api/programs/given.hlo", "..%2f..%2fetc%2fpasswd",
    ],
)  # fmt: skip
def test_no_path_leads_to_another_file(path: str, room: Class, ada: Browser) -> None:
    assert ada.request("GET", f"/desk/{path}").status == 404
    assert ada.request("GET", f"/{room.token}/{path}").status == 404


def test_a_huge_body_is_refused_before_it_is_read(room: Class, ada: Browser) -> None:
    for browser, path, status in (
        (ada, "/desk/api/ask", 413), (Browser(room.port), "/desk/api/ask", 401),
        (Browser(room.port), f"/{room.token}/api/join", 413), (Browser(room.port), "/", 403),
    ):  # fmt: skip
        with socket.create_connection(("127.0.0.1", room.port), PATIENCE) as stream:
            stream.sendall(
                f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{room.port}\r\ncookie: {browser.cookie}"
                "\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n".encode()
            )
            assert stream.recv(20).startswith(f"HTTP/1.1 {status}".encode())


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b'{"ask": "open"}', b"1"])
def test_an_invalid_request_gets_a_message(body: bytes, room: Class, ada: Browser) -> None:
    answer = ada.request("POST", "/desk/api/ask", body, content_type="application/json")
    assert (answer.status, "cannot read the question" in answer.words) == (400, True)
    answer = Browser(room.port).request(
        "POST", f"/{room.token}/api/join", body, content_type="application/json"
    )
    assert (answer.status, answer.words) == (400, "cannot read the name")


def test_slow_senders_are_cut_off(
    room: Class, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.3)
    head = f"POST /desk/api/ask HTTP/1.1\r\nhost: 127.0.0.1:{room.port}\r\ncookie: {ada.cookie}"
    body = "\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    listener = socket.create_server(("127.0.0.1", 0))
    plain = uvicorn.Server(uvicorn.Config(_nothing, log_level="critical", http="h11"))
    thread = threading.Thread(target=plain.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with (
            socket.create_connection(listener.getsockname()[:2], PATIENCE) as control,
            socket.create_connection(("127.0.0.1", room.port), PATIENCE) as first,
        ):
            control.sendall(head.encode())
            first.sendall(head.encode())
            assert _end_of(first) == b""  # a head that never ends
            with socket.create_connection(("127.0.0.1", room.port), PATIENCE) as second:
                second.sendall((head + body).encode())
                assert b"cannot read the question" in _end_of(second)
            control.setblocking(False)
            with pytest.raises(BlockingIOError):
                control.recv(1)  # a server without the limit waits for ever
    finally:
        plain.should_exit = True
        thread.join()
        listener.close()


async def _nothing(scope: object, receive: object, send: object) -> None: ...


def _end_of(stream: socket.socket) -> bytes:
    """Return all that comes until the other side ends the connection."""
    found = b""
    try:
        while data := stream.recv(4096):
            found += data
    except ConnectionResetError:
        pass
    return found


def test_connections_are_counted(room: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_OF_ONE", 5)
    streams = [socket.create_connection(("127.0.0.1", room.port), PATIENCE) for _ in range(5)]
    with socket.create_connection(("127.0.0.1", room.port), PATIENCE) as last:
        assert _end_of(last) == b""
    for stream in streams:
        stream.close()


# ------------------------------------------------------------------ hostile answers and modules


ATTACKS = {
    "the users of the machine": ("open('/etc/passwd').read()", "No such file"),
    "a file of the teacher": ("open({folder!r} + '/id').read()", "No such file"),
    "the module that the teacher gave": ("open({folder!r} + '/given.hlo').read()", "No such file"),
    "the environment of the server": ("open('/proc/{pid}/environ').read()", "No such file"),
    "a secret of the teacher": ("os.environ['HLOC_TEST_SECRET']", "KeyError"),
    "the server itself": (
        "socket.create_connection(('127.0.0.1', {port}))", "Operation not permitted"
    ),
    "a signal to the server": ("os.kill({pid}, 0)", "No such process"),
    "a file beside the server": ("open({folder!r} + '/planted', 'w')", "No such file"),
    "another process": ("os.fork() or os._exit(0)", "Operation not permitted"),
}  # fmt: skip


@pytest.mark.parametrize("what", ATTACKS)
def test_an_answer_to_a_lesson_reaches_nothing(
    what: str, room: Class, eve: Browser, tmp_path: Path
) -> None:
    folder = next(line for line in room.told if line.startswith("/"))
    code, expected = ATTACKS[what]
    code = code.format(folder=folder, pid=os.getpid(), port=room.port)
    assert expected in eve.check(f"{HEAD}{code}\n", 1)
    control = f"def attack():\n    {code}\n    return True"
    assert unconfined(control, tmp_path) == ("worked", True)


def test_an_answer_leaves_nothing_for_the_next(eve: Browser, ada: Browser) -> None:
    plant = "open('/tmp/json.py', 'w').write('x'); sys.modules['json'] = None; sys.path[:] = []"
    planted = f"{HEAD}{plant}\nraise ValueError(sorted(os.listdir('/tmp')))\n"
    assert eve.check(planted, 1).endswith("ValueError: ['exercise.py', 'json.py']")
    for browser in (ada, eve):
        look = f"{HEAD}import json\njson.dumps(1)\nraise ValueError(os.listdir('/tmp'))\n"
        assert browser.check(look, 1).endswith("ValueError: ['exercise.py']")


ENDS = {
    "for ever": ("while True: pass", "out of time: stopped after"),
    "memory": ("bytearray(1 << 40)", "MemoryError"),
    "exit": ("print('bye')\nsys.exit(0)", "ended with exit code 1\nSystemExit: 0\nbye"),
    "crash": ("import ctypes\nctypes.string_at(0)", "crashed: segmentation fault"),
    "output": ("while True: print('x' * 100_000)", "File too large"),
    "a long message": ("raise ValueError('x' * 1_000_000)", "more letters"),
    "no report": ("os.write(3, b'\\2' + bytes(7) + b'[]')\nos._exit(0)", "gave no answer"),
    "threads": ("import threading\nthreading.Thread(target=int).start()", "can't start new thread"),
}


@pytest.mark.parametrize("what", ENDS)
def test_an_answer_that_takes_too_much_gets_a_message(
    what: str, eve: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER_PATIENCE", Patience(PATIENCE, 0.5, 1 << 20))
    code, expected = ENDS[what]
    told = eve.check(f"{HEAD}{code}\n", 1)
    assert expected in told
    assert "Traceback" not in told
    assert len(told) < 9000


FORGED = {
    "passed": ({"findings": [{"name": "<b>", "ok": True, "text": ""}], "score": 1e9}, True),
    "no rows": ({"findings": [], "score": 100}, False),
    "a row that is none": ({"findings": [{"name": 1}], "score": 100}, False),
    "a word": ("passed", False),
    "a score without end": (
        {"findings": [{"name": "", "ok": True, "text": ""}], "score": "END"},
        False,
    ),
    "nothing": (None, False),
    "letters that are none": ({"fault": "\ud800"}, None),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_report_is_a_report_and_nothing_else(what: str, room: Class, eve: Browser) -> None:
    report, passed = FORGED[what]
    text = json.dumps([report, []]).replace('"END"', "1e999")
    code = f"import struct\nt = {text!r}.encode()\nos.write(3, struct.pack('<Q', len(t)) + t)"
    answer = eve.post("/desk/api/programs/2/check", {"answer": f"{HEAD}{code}\nos._exit(0)\n"})
    if passed is None:
        assert answer.words == "internal error"
        told = "internal error: UnicodeEncodeError"
        wait_until(lambda: any(line.startswith(told) for line in room.told), told)
    else:
        assert answer.json["passed"] is passed
        assert answer.json["score"] == (100 if passed else 0)


@pytest.mark.parametrize(
    ("text", "words"), [(LOOP, "out of time: stopped after"), (HUGE, "memory")]
)
def test_a_module_that_takes_too_much_gets_a_message(
    text: str, words: str, room: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WORK_PATIENCE", Patience(PATIENCE, 1, 1 << 20))
    browser = room.join("Zoe")
    faults = browser.ask("run", text)["faults"]
    assert words in faults[0]["message"]
    assert browser.ask("run")["ok"]


# ------------------------------------------------------------------ many students


def test_many_work_while_one_is_hostile(room: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ANSWER_PATIENCE", Patience(PATIENCE, PATIENCE, 1 << 20))
    hostile = room.join("Hostile")

    def attack() -> None:
        with suppress(ValueError, OSError):  # the class ends before the loop
            hostile.check(f"{HEAD}while True: pass\n", 1)

    loops = [threading.Thread(target=attack, daemon=True) for _ in range(2)]
    for loop in loops:
        loop.start()

    def works(number: int) -> tuple[int, bool]:
        browser = room.join(f"Student {number}")
        text = TEXT.replace("f32[2]", f"f32[{number}]")
        named = browser.ask("check", text)["instructions"]
        return named, browser.ask("run", text, inputs="x=ones")["ok"]

    with ThreadPoolExecutor(29) as students:
        found = list(students.map(works, range(1, 30)))
    assert found == [(2, True)] * 29
    assert all(loop.is_alive() for loop in loops)  # they ran all the time


def test_one_student_cannot_ask_without_end(room: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_ASKED", 2)
    monkeypatch.setattr(limits, "WORK_PATIENCE", Patience(PATIENCE, 1, 1 << 20))
    greedy, other = room.join("Greedy"), room.join("Other")
    with ThreadPoolExecutor(6) as asking:
        asked = [asking.submit(greedy.ask, "run", LOOP) for _ in range(6)]
        assert other.ask("check")["instructions"] == 2
        said = [future.result()["faults"][0]["message"] for future in asked]
    assert said.count("too many questions at once") == 4
    assert sum(words.startswith("out of time") for words in said) == 2
    assert greedy.ask("run")["ok"]


def test_the_processes_know_no_secret_of_the_server(room: Class, ada: Browser) -> None:
    assert ada.ask("check")["instructions"] == 2
    processes = confined_of(os.getpid())
    assert processes
    for pid in processes:
        for name in ("environ", "cmdline"):
            data = Path(f"/proc/{pid}/{name}").read_bytes()
            assert room.token.encode() not in data
            assert ada.cookie.partition("=")[2].encode() not in data
            assert b"HLOC_TEST_SECRET" not in data
