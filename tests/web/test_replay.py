"""A dump of XLA in the page: its passes are the states, with every view; in headless Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")
pytest.importorskip("selenium", reason="drives the browser")

from tests.waiting import wait_until
from tests.web.test_browser import Page, driver, linked, opened, pytestmark, served

__all__ = ["driver", "pytestmark"]

DUMP = Path(__file__).parents[1] / "golden" / "dumps" / "cluster"
SIMPLIFIER = 4  # the state after XLA's first algsimp


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served([str(DUMP)], tmp_path_factory.mktemp("state"))


@pytest.fixture
def page(driver: object, address: str) -> Iterator[Page]:
    yield from opened(driver, address, "simplification/algsimp")


def test_passes_of_xla_are_walked_with_diff_and_graph(page: Page) -> None:
    wait_until(lambda: "More passes" not in page.text("#steps"), "the dump is read")
    assert page.one("#range").get_attribute("max") == "17"
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows(f"{SIMPLIFIER}  simplification/algsimp", "#title")
    page.shows("kernels 32 → 27", "#effect")
    page.shows("← simplification/algsimp", "#view .by")
    assert "+2 -16 ~4 ⇄8" in page.text("#view .bar")
    page.view("graph")
    frames: list[str] = []
    for _ in range(2):
        wait_until(lambda: page.frame() not in ("", *frames), "the graph of this state")
        frames.append(page.frame())
        page.driver.switch_to.frame(page.one("#view iframe"))
        page.shows("points", "svg text")
        page.driver.switch_to.default_content()
        page.click("#on")
    page.shows("6  HLO_passes_through_layout_assignment/scatter_simplifier", "#title")


def test_states_of_xla_are_run_verified_and_compared(page: Page) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows("simplification/algsimp", "#title")
    page.view("run")
    page.click("#view .bar button:nth-of-type(2)")
    page.shows(f"s0 ≡ s{SIMPLIFIER} on 24 input sets", "#view .verdict.good")
    page.click("#view .bar button:nth-of-type(1)")
    page.shows("compare with s0 in the evaluator: OK", "#view .verdict.good")
    page.view("hlo")
    page.shows("HloModule jit_fit", "#view pre")
    page.view("compare")
    page.choose("#view .bar select", "0")
    page.shows("101 → 104", "#view .bar")
    page.shows("arg_tuple.1", "#view .diff")


def test_an_edited_text_goes_to_hlocs_passes_and_the_same_text_may_return(page: Page) -> None:
    page.write_at("HloModule jit_", "my_")
    page.shows("algebraic-simplifier", "#steps")
    assert not page.one("#levels label:last-child").is_displayed()
    page.choose("#programs", "0")
    page.shows("simplification/algsimp", "#steps")
    page.click('#levels input[value="-O2"]')
    page.shows("algebraic-simplifier", "#steps")
    page.click('#levels input[value="XLA"]')
    page.shows("simplification/algsimp", "#steps")


def test_a_link_leads_to_a_state_of_the_dump(page: Page) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.view("cost")
    wait_until(lambda: linked(page).get("view") == "cost", "the address holds the view")
    assert linked(page)["dump"] == "module_0000.jit_fit"
    link = page.driver.current_url
    page.driver.get("about:blank")
    page.driver.get(link)
    page.shows(f"{SIMPLIFIER}  simplification/algsimp", "#title")
    page.shows("FLOP", "#view")


def test_lessons_are_there_beside_a_dump(page: Page) -> None:
    first = page.driver.execute_script(
        "return [...document.querySelectorAll('#programs option')]"
        ".find((o) => o.parentNode.label === 'Lessons').value"
    )
    page.choose("#programs", first)
    page.shows("your answer, in Python", "#view .bar")
    page.view("diff")
    page.shows("dce", "#steps")
