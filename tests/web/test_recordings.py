"""Recorded sessions of `hloc web` on the documentation site: the page, its steps, and no server."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")
pytest.importorskip("selenium", reason="drives the browser")

from docs.generators import recordings
from docs.generators.recordings import Session
from tests.waiting import wait_until
from tests.web.test_browser import FIT, Page, driver, pytestmark

__all__ = ["driver", "pytestmark"]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server that has files and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    recordings.write(folder / "recordings")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/recordings"
    server.shutdown()
    server.server_close()


def opened(driver: Any, site: str, session: Session) -> Page:
    page = Page(driver)
    page.open(f"{site}/{session.name}/index.html")
    page.shows(f"1 of {len(session.steps)}", "#player .count")
    return page


@pytest.mark.parametrize("session", recordings.sessions(), ids=lambda session: session.name)
def test_a_session_is_stepped_through_and_back(driver: Any, site: str, session: Session) -> None:
    page = opened(driver, site, session)
    for number, step in enumerate(session.steps, 1):
        page.shows(f"{number} of {len(session.steps)}", "#player .count")
        assert page.text("#player .say") == step.say
        selector, words = step.shows
        page.shows(words, selector)
        assert page.text(".fault") == ""
        page.click("#player .next")
    page.click("#player .back")
    page.shows(f"{len(session.steps) - 1} of", "#player .count")
    assert driver.execute_script(FIT)
    page.has_no_complaints()


def test_every_state_and_its_graph_can_be_looked_at(driver: Any, site: str) -> None:
    page = opened(driver, site, recordings.sessions()[0])
    page.view("graph")
    seen: list[str] = []
    for number in range(1 + int(page.one("#range").get_attribute("max"))):
        page.click(f'#steps [data-state="{number}"]')
        wait_until(lambda: page.frame() not in ("", *seen), f"the graph of state {number}")
        seen.append(page.frame())
        driver.switch_to.frame(page.one("#view iframe"))
        page.shows("dot_general.1", "svg text")
        driver.switch_to.default_content()
    assert len(seen) > 5
    page.has_no_complaints()


def test_states_that_were_not_recorded_are_reported(driver: Any, site: str) -> None:
    page = opened(driver, site, recordings.sessions()[0])
    page.view("asm")
    page.shows("this is not in the recording", "#view .fault")
    assert "hloc web answers this on your machine" in page.text("#view .fault")
    assert page.one("#editor textarea").get_attribute("readonly")
