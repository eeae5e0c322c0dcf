"""`hloc web` with its real child processes: modules that never end, crash or take too much."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")

from hloc.errors import HloError
from hloc.python_process import python_command, python_environment
from hloc.web.child import Child
from hloc.web.questions import read_question

pytestmark = pytest.mark.slow

TEXT = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT n = f32[2] negate(x) }\n"
LOOP = """HloModule m
c { s = s32[] parameter(0) ROOT t = pred[] constant(true) }
b { s = s32[] parameter(0) ROOT n = s32[] negate(s) }
ENTRY e { x = s32[] parameter(0) ROOT w = s32[] while(x), condition=c, body=b }
"""
HUGE = "HloModule m\nENTRY e { ROOT x = f32[1000000,1000000] iota(), iota_dimension=0 }\n"


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    found = Child()
    yield found
    found.close()


def ask(child: Child, what: str, text: str, seconds: float = 300) -> dict[str, Any]:
    return child.ask(read_question({"ask": what, "text": text, "pipeline": "-O0"}), seconds)


def test_a_module_is_run_and_compared(child: Child) -> None:
    answer = ask(child, "run", TEXT)
    assert answer["ok"]
    assert "compare with" in answer["text"] or "out0" in answer["text"]


def test_a_module_is_run_on_the_inputs_of_each_question(child: Child) -> None:
    asked = {"ask": "run", "text": TEXT, "pipeline": "-O0", "inputs": "x=[3,4]"}
    assert "{-3, -4}" in child.ask(read_question(asked), 300)["text"]
    assert "{-3, -4}" not in ask(child, "run", TEXT)["text"]
    faults = child.ask(read_question({**asked, "inputs": "y=ones"}), 300)["faults"]
    assert faults[0]["message"] == "line 1 of the inputs: the module takes no 'y'"


def test_kernels_are_measured_one_by_one(child: Child) -> None:
    asked = {"ask": "roofline", "text": TEXT, "pipeline": "-O0", "measure": True}
    answer = child.ask(read_question(asked), 300)
    assert "modelled" not in answer["text"]
    assert " us measured" in answer["html"]


@pytest.mark.parametrize("what", ["run", "verify"])
def test_a_module_without_end_is_stopped_and_the_next_one_answered(child: Child, what: str) -> None:
    with pytest.raises(HloError, match=r"stopped after 3 s"):
        ask(child, what, LOOP, 3)
    assert ask(child, "check", TEXT)["instructions"] == 2


def test_a_module_that_needs_more_than_the_machine_has_gets_a_message(child: Child) -> None:
    answer = ask(child, "run", HUGE)
    assert answer["faults"][0]["message"]
    assert "internal error" not in answer["faults"][0]["message"]
    assert ask(child, "check", TEXT)["instructions"] == 2


def test_the_command_serves_its_page_at_the_address_it_prints() -> None:
    command = python_command("-m", "hloc", "web", "--no-browser")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=python_environment())
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+/", process.stderr.readline())
        assert found
        opener = build_opener(ProxyHandler({}))
        with opener.open(found[0]) as page:
            assert b"<!doctype html>" in page.read()
        question = json.dumps({"ask": "check", "text": TEXT}).encode()
        asked = Request(f"{found[0]}api/ask", question, {"content-type": "application/json"})
        with opener.open(asked) as answer:
            assert json.load(answer)["instructions"] == 2
    finally:
        process.terminate()
        process.communicate()


def test_a_port_that_is_taken_gets_a_message() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = python_command("-m", "hloc", "web", "--no-browser", f"--port={port}")
        done = subprocess.run(command, capture_output=True, text=True, env=python_environment())
    assert done.returncode == 1
    assert f"cannot listen on port {port}" in done.stderr
