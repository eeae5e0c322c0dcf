"""The views of `hloc web`, scanned by axe (https://github.com/dequelabs/axe-core), light and dark.

axe is not a package of Python: `npm pack axe-core`, and name its axe.min.js in HLOC_AXE.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="drives the browser")

from selenium.webdriver.common.keys import Keys

from tests.waiting import PATIENCE, wait_until
from tests.web.test_browser import SIMPLIFIER, Page, address, driver, page
from tests.web.test_classroom_browser import Class, room

__all__ = ["address", "driver", "page", "room"]  # fixtures

AXE = os.environ.get("HLOC_AXE", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE, reason="needs HLOC_AXE, the path of axe.min.js"),
]

SCAN = """const done = arguments[0];
axe.run().then((found) => done(found.violations
  .filter((row) => ["serious", "critical"].includes(row.impact))
  .map((row) => `${row.id}: ${row.nodes[0].html.slice(0, 200)}`)));"""
SHOWN = {
    "diff": ".diff", "graph": "iframe", "hlo": "pre", "run": ".bar", "cost": ".costs",
    "memory": "pre", "roofline": "pre", "llvm-ir": "pre", "asm": "pre",
    "ptx": "pre", "compare": ".bar",
}  # fmt: skip
"""What a view shows once it is drawn."""


@pytest.fixture(params=["light", "dark"])
def themed(page: Page, request: pytest.FixtureRequest) -> Page:
    page.driver.set_script_timeout(PATIENCE)
    if page.driver.execute_script("return document.documentElement.dataset.theme") != request.param:
        page.click("#theme")
    return page


def findings(page: Page) -> list[str]:
    """Return what axe calls serious or critical on the page and in its frames."""
    found: list[str] = scanned(page.driver)
    for frame in page.driver.find_elements("css selector", "#view iframe"):
        page.driver.switch_to.frame(frame)
        found += scanned(page.driver)
        page.driver.switch_to.default_content()
    return found


def scanned(driver: Any) -> Any:
    driver.execute_script(Path(AXE).read_text(encoding="utf-8"))
    return driver.execute_async_script(SCAN)


def test_no_view_of_a_state_has_a_serious_finding(themed: Page) -> None:
    themed.click(f'#steps [data-state="{SIMPLIFIER}"]')
    themed.shows("algebraic-simplifier", "#title")
    shown = themed.driver.find_elements("css selector", "#tabs button:not([hidden])")
    assert {tab.get_attribute("data-view") for tab in shown} == set(SHOWN)
    for view, sign in SHOWN.items():
        themed.view(view)
        drawn = partial(themed.driver.find_elements, "css selector", f"#view > {sign}")
        wait_until(drawn, view)
        assert findings(themed) == [], view


def test_runs_lessons_and_errors_have_no_serious_finding(themed: Page) -> None:
    themed.view("run")
    themed.click("#view .bar button")
    themed.shows("compare", "#view .verdict")
    assert findings(themed) == []
    themed.choose("#programs", "3")
    themed.shows("your answer", "#view .bar")
    themed.click("#view .bar button")
    themed.shows("Not yet.", "#view .verdict")
    themed.write_at("multiply", "x")
    themed.shows("HLOC0104", "#editor .under")
    assert findings(themed) == []


def test_the_page_to_join_a_class_has_no_serious_finding(themed: Page, room: Class) -> None:
    theme = themed.driver.execute_script("return document.documentElement.dataset.theme")
    themed.driver.get(room.link)
    if themed.driver.execute_script("return document.documentElement.dataset.theme") != theme:
        themed.click("#theme")
    assert findings(themed) == []
    themed.one("#name").send_keys("  ", Keys.ENTER)
    themed.shows("write your name", "#fault")
    assert findings(themed) == []


def test_a_mistake_would_be_found(themed: Page) -> None:
    script = "document.querySelector('#view').innerHTML = '<button></button>'"
    themed.driver.execute_script(script)
    assert [row for row in findings(themed) if row.startswith("button-name")]
