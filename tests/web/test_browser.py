"""The page of `hloc web` in a real browser: headless Chromium, driven by Selenium."""

import base64
import json
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc

pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")
pytest.importorskip("selenium", reason="drives the browser")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from benchmarks.bench_passes import repeated
from hloc.driver import load_module
from hloc.editors.tokens import tokens
from hloc.learn.catalogue import find_lesson
from hloc.python_process import python_command, python_environment
from hloc.report.input_specs import parameters_of
from hloc.report.inputs import parameter_leaves
from tests.unit.editors.test_tokens import MODULE
from tests.waiting import PATIENCE, wait_until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "softmax_relu.hlo"
SIMPLIFIER = 3  # the state after algebraic-simplifier at -O2
FIT = "return document.documentElement.scrollWidth <= innerWidth"


class Page:
    """The page, with what a person does on it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(address)

    def has_no_complaints(self) -> None:
        """Fail if the console has an error, such as what the policy of the page refuses."""
        found = [row for row in self.driver.get_log("browser") if row["level"] == "SEVERE"]
        assert found == []

    def frame(self) -> str:
        """Return the address of the drawing in the view, "" if there is none."""
        script = "return document.querySelector('#view iframe')?.src || ''"
        return str(self.driver.execute_script(script))

    def one(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        script = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((found) => found.textContent).join('\\n')"
        )
        return str(self.driver.execute_script(script, selector))

    def shows(self, words: str, selector: str) -> None:
        wait_until(lambda: words in self.text(selector), f"{selector} shows {words!r}")

    def click(self, selector: str) -> None:
        script = "const e = document.querySelector(arguments[0]); if (e) e.click(); return !!e"
        wait_until(lambda: self.driver.execute_script(script, selector), selector)

    def rests(self) -> None:
        """Return once the page waits for no answer."""
        wait_until(lambda: not self.text("#busy"), "the page has all answers")

    def view(self, name: str) -> None:
        self.click(f'#tabs [data-view="{name}"]')

    def choose(self, selector: str, value: str) -> None:
        script = "const [e, v] = arguments; e.value = v; e.dispatchEvent(new Event('change'))"
        self.driver.execute_script(script, self.one(selector), value)

    def write_at(self, what: str, keys: str) -> None:
        """Put the cursor behind the first `what` of the program and type `keys`."""
        self.driver.execute_script(
            "const t = document.querySelector('textarea'), at = t.value.indexOf(arguments[0]) + "
            "arguments[0].length; t.focus(); t.setSelectionRange(at, at);",
            what,
        )
        self.one("textarea").send_keys(keys)


def served(paths: list[str], state: Path) -> Iterator[str]:
    """Yield the address of a `hloc web` that is ended then; lessons passed there are not ours."""
    environment = python_environment(XDG_STATE_HOME=str(state))
    command = python_command("-m", "hloc", "web", "--no-browser", *paths)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    found = re.search(r"http://\S+/", process.stderr.readline())
    assert found
    yield found[0]
    process.terminate()
    process.communicate()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served([str(EXAMPLE)], tmp_path_factory.mktemp("state"))


def new_driver() -> Any:
    """Return a browser without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--disable-gpu", "--window-size=1280,800", "--no-proxy-server"):
        options.add_argument(word)
    if hasattr(os, "getuid") and os.getuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's own refuses to run as root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    found.set_page_load_timeout(PATIENCE)
    return found


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    found = new_driver()
    yield found
    found.quit()


@pytest.fixture
def page(driver: Any, address: str) -> Iterator[Page]:
    yield from opened(driver, address, "algebraic-simplifier")


def opened(driver: Any, address: str, step: str) -> Iterator[Page]:
    """Yield the page at `address` when it shows `step`; afterwards it must not have complained."""
    found = Page(driver)
    found.open(address)
    found.shows(step, "#steps")
    yield found
    found.has_no_complaints()


def test_a_program_is_opened_in_colours(page: Page) -> None:
    assert page.text("#name") == "jit_softmax_relu"
    assert "38 instructions" in page.text("#facts")
    assert "maximum" in page.text("#editor .k-opcode")
    assert "f32" in page.text("#editor .k-type")


def test_an_error_appears_under_its_line_while_typing_and_goes(page: Page) -> None:
    page.write_at("maximum", "um")
    page.shows("HLOC0104 unknown opcode: maximumum; did you mean maximum?", "#editor .under")
    assert page.text("#editor .under b").strip() == "^" * len("maximumum")
    assert page.text("#facts") == "1 error"
    assert "unknown opcode" in page.text("#problems button")
    page.one("textarea").send_keys(Keys.BACKSPACE * 2)
    page.shows("38 instructions", "#facts")
    assert page.text("#problems") == ""


def test_passes_are_stepped_with_diff_rule_and_law(page: Page) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows("reshape(reshape(x)) → reshape x", "#told")
    page.shows("broadcast_in_dim.3", "#view .removed")
    assert "← reshape-reshape" in page.text("#view .by")
    assert "b.1" in page.text("#view .now mark")
    page.click("#on")
    page.shows("4  cse", "#title")


def test_single_rewrites_are_stepped_by_keys(page: Page) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows("maximum-lowest", "#steps .rewrite")
    page.driver.execute_script("document.querySelector('#view').focus()")
    page.one("#view").send_keys("JJJ")
    page.shows("3+3  algebraic-simplifier", "#title")
    wait_until(lambda: page.text("#told .rule") == "maximum-lowest", "one rule is told")
    assert "maximum(x, <lowest>) → x" in page.text("#told")


def test_states_of_a_large_module_are_shown_while_more_passes_run(page: Page) -> None:
    large = repeated(load_module(str(EXAMPLE)), 150).to_text()
    page.driver.execute_script(
        "const t = document.querySelector('textarea'); t.value = arguments[0];"
        "t.dispatchEvent(new Event('input'))",
        large,
    )
    page.shows("More passes are running", "#steps")
    page.click('#steps [data-state="1"]')
    page.shows("1  call-inliner", "#title")
    page.shows("call", "#view .diff")
    wait_until(lambda: "More passes" not in page.text("#steps"), "all passes have run")
    assert "1  call-inliner" in page.text("#title")
    assert int(page.one("#range").get_attribute("max")) > SIMPLIFIER


def test_the_graph_of_a_state_is_drawn_in_a_frame_of_its_own(page: Page) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows("algebraic-simplifier", "#title")
    page.view("graph")
    wait_until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#view iframe"), "a frame")
    page.driver.switch_to.frame(page.one("#view iframe"))
    page.shows("dot_general.1", "svg text")
    page.driver.switch_to.default_content()


def test_a_state_is_run_verified_and_seen_as_code(page: Page) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows("algebraic-simplifier", "#title")
    page.view("run")
    page.shows("Verify", "#view .bar")
    page.click("#view .bar button:nth-of-type(1)")
    page.shows("compare with s0 in the evaluator: OK", "#view .verdict.good")
    page.click("#view .bar button:nth-of-type(2)")
    page.shows("s0 ≡ s3 on 24 input sets", "#view .verdict.good")
    page.view("llvm-ir")
    page.shows("define", "#view pre")
    page.view("asm")
    page.shows("hloc_entry:", "#view pre")
    page.view("cost")
    page.shows("dot_general.1", "#view .costs")


def test_a_state_is_run_on_inputs_that_are_typed(page: Page) -> None:
    page.view("run")
    page.click("#view .bar button:nth-of-type(1)")
    page.shows("(random, seed 0)", "#view .verdict.good")
    page.one("#view .inputs textarea").send_keys("x.1=zeros\nwrong=ones")
    page.click("#view .bar button:nth-of-type(1)")
    page.shows("line 2 of the inputs: the module takes no 'wrong'", "#view .fault")
    page.one("#view .inputs textarea").send_keys(Keys.BACKSPACE * len("wrong=ones"))
    page.click("#view .bar button:nth-of-type(1)")
    page.shows("(random, seed 0, x.1=zeros)", "#view .verdict.good")


def test_a_state_is_run_on_a_file_and_its_results_are_saved(page: Page, tmp_path: Path) -> None:
    module = load_module(str(EXAMPLE))
    names = [parameter.names[0] for parameter in parameters_of(module)]
    arrays = [np.zeros(shape.dims, np.float32) for shape in parameter_leaves(module)]
    named: dict[str, Any] = dict(zip(names, arrays, strict=True))
    np.savez(tmp_path / "zeros.npz", **named)
    page.driver.execute_cdp_cmd(
        "Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.view("run")
    page.shows("Verify", "#view .bar")
    page.one("#view input[type=file]").send_keys(str(tmp_path / "zeros.npz"))
    page.shows("zeros.npz is taken", "#view .bar")
    page.click("#view .bar button:nth-of-type(1)")
    page.shows("(zeros.npz)", "#view .verdict.good")
    page.click("#view .save")
    saved = tmp_path / "results.npz"
    wait_until(saved.exists, "the results are saved")
    (expected,) = hloc.evaluate(module, *arrays)
    with np.load(saved) as found:
        assert np.array_equal(found["out0"], expected)
    named[names[0]] = np.zeros(3)
    np.savez(tmp_path / "wrong.npz", **named)
    page.one("#view input[type=file]").send_keys(str(tmp_path / "wrong.npz"))
    page.shows("wrong.npz is taken", "#view .bar")
    page.click("#view .bar button:nth-of-type(1)")
    page.shows(f"{names[0]} has dimensions [3], expected f32", "#view .fault")


@pytest.mark.parametrize(("view", "text"), [("memory", "arena"), ("roofline", "GFLOP/s")])
def test_memory_and_kernels_are_drawn(page: Page, view: str, text: str) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows("algebraic-simplifier", "#title")
    page.view(view)
    page.shows(text, "#view pre")
    page.driver.switch_to.frame(page.one("#view iframe"))
    page.shows("reduce_max.7", "svg title")
    page.driver.switch_to.default_content()


def test_a_kernel_is_stepped_in_the_interpreter(page: Page) -> None:
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.shows("algebraic-simplifier", "#title")
    page.view("ptx")
    page.shows("step 0 of", "#view pre")
    page.rests()
    page.choose("#view .bar label:last-of-type select", "exp.1")
    page.shows("exponential", "#view pre")
    page.rests()
    page.click('[aria-label="One instruction on"]')
    page.shows("step 1 of", "#view pre")
    page.rests()
    page.choose("#view .bar select", "global")
    page.shows("ld.global", "#view pre")
    page.rests()
    page.click('[aria-label="One instruction back"]')
    page.rests()
    page.choose("#view .bar label:nth-of-type(3) input", "5")
    page.shows("thread 5 (lane 5 of warp 0)", "#view pre")
    page.click('#steps [data-state="0"]')
    page.shows("step", "#view pre")


def test_a_state_is_compared_with_another_program(page: Page) -> None:
    page.view("compare")
    page.shows("choose a program", "#view .bar")
    page.choose("#view .bar select", "0")
    page.shows("No instruction is different.", "#view")
    page.choose("#view .bar select", "1")
    page.shows("38 → ", "#view .bar")
    page.shows("dot_general.1", "#view .diff")


def test_a_lesson_is_read_and_its_exercise_checked(page: Page) -> None:
    page.choose("#programs", "1")
    page.shows("your answer, in Python", "#view .bar")
    page.driver.switch_to.frame(page.one("#view iframe"))
    page.shows("What a program is", "h1")
    page.driver.switch_to.default_content()
    page.click("#view .bar button")
    page.shows("Not yet.", "#view .verdict.bad")
    assert "q1: the shape of xw" in page.text("#view .findings .bad")
    reference = find_lesson("1").read("reference.py")
    page.driver.execute_script(
        "const t = document.querySelector('#view .answer'); t.value = arguments[0];"
        "t.dispatchEvent(new Event('input'))",
        reference,
    )
    page.click("#view .bar button")
    page.shows("Passed, score 100 of 100.", "#view .verdict.good")
    page.view("diff")
    page.shows("This is the input", "#view")
    page.view("lesson")
    page.shows("Passed, score 100 of 100.", "#view .verdict.good")
    assert page.one("#view .answer").get_property("value") == reference
    page.choose("#programs", "0")
    page.shows("jit_softmax_relu", "#name")
    assert not page.one('#tabs [data-view="lesson"]').is_displayed()


def linked(page: Page) -> dict[str, Any]:
    """Return what the address holds, {} for nothing yet."""
    packed = page.driver.current_url.partition("#")[2]
    if not packed:
        return {}
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    found: dict[str, Any] = json.loads(zlib.decompress(data, -zlib.MAX_WBITS))
    return found


def test_a_link_holds_program_state_and_view(page: Page) -> None:
    page.write_at("HloModule jit_", "my_")
    page.shows("jit_my_softmax_relu", "#name")
    page.click(f'#steps [data-state="{SIMPLIFIER}"]')
    page.view("hlo")
    page.shows("HloModule", "#view pre")
    wait_until(lambda: linked(page).get("view") == "hlo", "the address holds the view")
    assert linked(page)["state"] == SIMPLIFIER
    assert "jit_my_softmax_relu" in linked(page)["text"]
    link = page.driver.current_url
    page.driver.get("about:blank")
    page.driver.get(link)
    page.shows("3  algebraic-simplifier", "#title")
    page.shows("jit_my_softmax_relu", "#view pre")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800])
def test_the_page_fits_light_and_dark_wide_and_narrow(page: Page, theme: str, width: int) -> None:
    if page.driver.execute_script("return document.documentElement.dataset.theme") != theme:
        page.click("#theme")
    page.driver.set_window_size(width, 900)
    assert page.driver.execute_script(FIT)
    paper = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[theme]
    page.driver.set_window_size(1280, 800)


def test_the_colours_are_those_of_the_lexer(page: Page) -> None:
    for text in (MODULE, EXAMPLE.read_text()):
        found = page.driver.execute_async_script(
            "const [text, done] = arguments;"
            "import(new URL('page/highlight.js', location.href.split('#')[0]))"
            ".then((m) => done([...m.tokens(text)]), (fault) => done(String(fault)))",
            text,
        )
        assert found == [[token.kind, token.text] for token in tokens(text)]
