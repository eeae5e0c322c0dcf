"""The process that works on modules: what the server does when it hangs or dies."""

import os
from collections.abc import Iterator

import pytest

from hloc.errors import HloError
from hloc.python_process import python_command
from hloc.web.child import Child
from tests.waiting import wait_until

_READY = """
import os, sys, time
from hloc.framing import read_message, write_message
write_message(sys.stdout.buffer, {})
while True:
    question, _ = read_message(sys.stdin.buffer)
    if question["do"] == "hang": time.sleep(1000)
    if question["do"] == "begin":
        sys.stdout.buffer.write(b"\\x40\\0\\0\\0\\0\\0\\0\\0{")
        sys.stdout.flush()
        time.sleep(1000)
    if question["do"] == "die": os.abort()
    if question["do"] == "lie":
        sys.stdout.buffer.write(b"x" * 64)
        sys.stdout.flush()
    write_message(sys.stdout.buffer, {"pid": os.getpid(), "folder": os.getcwd()})
"""


@pytest.fixture
def child() -> Iterator[Child]:
    found = Child(python_command("-c", _READY))
    yield found
    found.close()


def test_a_process_is_kept_between_questions(child: Child) -> None:
    first = child.ask({"do": ""}, 30)
    assert child.ask({"do": ""}, 30) == first


@pytest.mark.parametrize("how", [{"do": "hang"}, {"do": "begin"}, {"do": "hang", "x": "x" * 10**6}])
def test_a_process_that_hangs_is_ended_and_a_new_one_answers(
    child: Child, how: dict[str, str]
) -> None:
    first = child.ask({"do": ""}, 30)["pid"]
    with pytest.raises(HloError, match=r"stopped after 0\.05 s") as caught:
        child.ask(how, 0.05)
    assert "the server goes on" in caught.value.diagnostics[0].notes[0]
    assert child.ask({"do": ""}, 30)["pid"] != first


def test_a_process_that_reads_no_request_is_ended() -> None:
    deaf = "from hloc.framing import *; import sys, time; write_message(sys.stdout.buffer, {})"
    child = Child(python_command("-c", f"{deaf}; time.sleep(1000)"))
    with pytest.raises(HloError, match=r"stopped after 0\.05 s"):
        child.ask({"do": "x" * 10**6}, 0.05)
    child.close()


def test_a_crash_is_reported_and_a_new_process_answers(child: Child) -> None:
    with pytest.raises(HloError, match=r"crashed: aborted \(SIGABRT\)"):
        child.ask({"do": "die"}, 30)
    assert child.ask({"do": ""}, 30)["pid"]


def test_an_invalid_answer_ends_the_process(child: Child) -> None:
    with pytest.raises(HloError, match="the process that worked on it"):
        child.ask({"do": "lie"}, 30)
    assert child.ask({"do": ""}, 30)["pid"]


def test_closing_ends_the_process_and_removes_its_folder(child: Child) -> None:
    answer = child.ask({"do": ""}, 30)
    child.close()
    assert not os.path.exists(answer["folder"])
    wait_until(lambda: not os.path.exists(f"/proc/{answer['pid']}"), "the process ends")


def test_a_failed_start_is_reported() -> None:
    with pytest.raises(HloError, match="did not start"):
        Child(python_command("-c", "pass")).ask({"do": ""}, 30)
