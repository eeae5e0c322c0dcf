"""A class of `hloc web --classroom` in two browsers: students work side by side."""

import re
import subprocess
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")
pytest.importorskip("selenium", reason="drives the browser")

from selenium.webdriver.common.keys import Keys

from hloc.learn.catalogue import find_lesson
from hloc.python_process import python_command
from tests.waiting import wait_until
from tests.web.test_browser import CHROMIUM, DRIVER, EXAMPLE, SIMPLIFIER, Page, new_driver

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]

ANSWER = """document.querySelector('#view .answer').value = arguments[0];
document.querySelector('#view .answer').dispatchEvent(new Event('input'))"""
MARKUP = (
    '"""Markup."""\nraise ValueError("<img src=x onerror=document.title=1><script>1</script>")\n'
)


class Class:
    """A class that runs: its link, and the lines on the teacher's terminal."""

    def __init__(self) -> None:
        command = python_command("-m", "hloc", "web", "--classroom", str(EXAMPLE))
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        said = ""
        for line in self.process.stderr:
            said += line
            found = re.search(r"http://\S+/", line)
            if found:
                self.link = found[0]
                return
        pytest.skip(f"confined processes: {said}")

    def line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()


@pytest.fixture(scope="module")
def room() -> Iterator[Class]:
    found = Class()
    yield found
    found.process.terminate()
    found.process.communicate()


def joined(room: Class, name: str) -> Page:
    """Return the page of a student with a browser of his own."""
    page = Page(new_driver())
    page.driver.get(room.link)
    page.one("#name").send_keys(name, Keys.ENTER)
    page.shows("algebraic-simplifier", "#steps")
    return page


@pytest.fixture(scope="module")
def students(room: Class) -> Iterator[tuple[Page, Page]]:
    ada = joined(room, "Ada")
    bob = joined(room, "Bob")
    yield ada, bob
    for page in (ada, bob):
        complaints = [row for row in page.driver.get_log("browser") if row["level"] == "SEVERE"]
        page.driver.quit()
        assert complaints == []


def test_two_students_work_side_by_side(room: Class, students: tuple[Page, Page]) -> None:
    ada, bob = students
    assert room.line() == "Ctrl-C ends it\n"
    assert room.line() == "Ada joined from 127.0.0.1 (1 of 40)\n"
    assert room.line() == "Bob joined from 127.0.0.1 (2 of 40)\n"
    ada.write_at("HloModule jit_", "ada_")
    ada.shows("jit_ada_softmax_relu", "#name")
    bob.click(f'#steps [data-state="{SIMPLIFIER}"]')
    bob.shows("reshape(reshape(x)) → reshape x", "#told")
    assert bob.text("#name") == "jit_softmax_relu"
    ada.view("run")
    ada.click("#view .bar button:nth-of-type(1)")
    ada.shows("(random, seed 0)", "#view .verdict.good")
    bob.view("graph")
    wait_until(lambda: bob.driver.find_elements("css selector", "#view iframe"), "a frame")
    bob.driver.switch_to.frame(bob.one("#view iframe"))
    bob.shows("dot_general.1", "svg text")
    bob.driver.switch_to.default_content()
    assert ada.driver.execute_script("return document.cookie") == ""


def test_an_answer_is_checked_and_what_it_says_is_text(
    room: Class, students: tuple[Page, Page]
) -> None:
    ada, bob = students
    for page in students:
        page.choose("#programs", "1")
        page.shows("your answer, in Python", "#view .bar")
    ada.driver.execute_script(ANSWER, find_lesson("1").read("reference.py"))
    ada.click("#view .bar button")
    ada.shows("Passed, score 100 of 100.", "#view .verdict.good")
    assert room.line() == "Ada passed lesson 1. What a program is, score 100\n"
    bob.driver.execute_script(ANSWER, MARKUP)
    bob.click("#view .bar button")
    bob.shows("<img src=x onerror=document.title=1><script>1</script>", "#view .findings pre")
    assert bob.driver.title == "hloc web"
    assert not bob.driver.find_elements("css selector", "#view .findings img")


def test_a_student_who_has_joined_comes_back_to_the_page(
    room: Class, students: tuple[Page, Page]
) -> None:
    ada, _ = students
    ada.driver.get("about:blank")
    ada.driver.get(room.link)
    ada.shows("algebraic-simplifier", "#steps")
    assert ada.driver.current_url.partition("#")[0].endswith("/desk/")
