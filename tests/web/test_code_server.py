"""The extension in VS Code itself: code-server, which serves it to a browser, in headless Chromium.

`npm install code-server` brings it (its native modules need a C++ compiler and libkrb5-dev); put it
into PATH. HLOC_SCREENS names a folder that gets a picture.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="drives the browser")
pytest.importorskip("pygls", reason="the extra hloc[lsp]")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from hloc.python_process import end_with_children
from tests.unit.editors.test_vscode import built
from tests.waiting import wait_until
from tests.web.test_browser import CHROMIUM, DRIVER, Page, driver

__all__ = ["built", "driver"]

CODE_SERVER = shutil.which("code-server")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CODE_SERVER, reason="needs code-server"),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]

WRONG = """HloModule wrong

ENTRY e {
  x = f32[8,64] parameter(0)
  y = f32[8,64] negat(x)
  ROOT r = f32[8,64] add(y, x)
}
"""
GOOD = WRONG.replace("negat(", "negate(").replace("wrong", "good")
SETTINGS = {
    "hloc.path": str(Path(sys.executable).with_name("hloc")),
    "hloc.passOptions": ["--passes=fusion"],
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "telemetry.telemetryLevel": "off",
    "chat.disableAIFeatures": True,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder to work in, with files."""
    found = tmp_path_factory.mktemp("work")
    (found / "wrong.hlo").write_text(WRONG)
    (found / "good.hlo").write_text(GOOD)
    return found


@pytest.fixture(scope="module")
def address(built: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of VS Code with the extension installed from its package."""
    top = tmp_path_factory.mktemp("code-server")
    (top / "data" / "User").mkdir(parents=True)
    (top / "data" / "User" / "settings.json").write_text(json.dumps(SETTINGS))
    (top / "config.yaml").write_text("auth: none\n")
    assert CODE_SERVER is not None
    command = [
        CODE_SERVER, f"--config={top / 'config.yaml'}", f"--user-data-dir={top / 'data'}",
        f"--extensions-dir={top / 'extensions'}",
    ]  # fmt: skip
    package = str(built / "hloc.vsix")
    subprocess.run([*command, "--install-extension", package], check=True, capture_output=True)
    quiet = ("--disable-telemetry", "--disable-update-check", "--disable-workspace-trust")
    with (top / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *quiet, "--bind-addr=127.0.0.1:0", str(folder)],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        listens = re.compile(r"listening on (http://127\.0\.0\.1:\d+)/")
        wait_until(lambda: listens.search((top / "log").read_text()), "code-server listens")
        found = listens.search((top / "log").read_text())
        assert found
        yield found[1]
    finally:
        end_with_children(process)


def opened(driver: Any, address: str, file: Path) -> Page:
    remote = address.replace("http", "vscode-remote")
    payload = json.dumps([["openFile", f"{remote}{file}"]])
    page = Page(driver)
    page.open(f"{address}/?folder={file.parent}&payload={payload}")
    page.shows("HloModule", ".view-lines")
    return page


def hover(page: Page, selector: str, words: str) -> None:
    """Point at an element until the hover that VS Code shows has `words`."""

    def seen() -> bool:
        for elsewhere in (".tabs-container", selector):
            found = page.driver.find_elements(By.CSS_SELECTOR, elsewhere)
            if found:
                ActionChains(page.driver).move_to_element(found[0]).pause(1.5).perform()
        return words in page.text(".monaco-hover:not(.hidden)").replace("\u00a0", " ")

    wait_until(seen, f"the hover has {words!r}")


def test_errors_lenses_and_hovers_come_from_the_language_server(
    driver: Any, address: str, folder: Path
) -> None:
    page = opened(driver, address, folder / "wrong.hlo")
    wait_until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".squiggly-error"), "an error")
    page.shows("run on random inputs", ".codelens-decoration")
    hover(page, ".squiggly-error", "unknown opcode: negat; did you mean negate?")
    assert "HLOC0104" in page.text(".monaco-hover")
    screens = os.environ.get("HLOC_SCREENS")
    if screens:
        page.driver.save_screenshot(str(Path(screens, "vscode-error.png")))


def test_the_view_of_passes_opens_beside_a_good_module(
    driver: Any, address: str, folder: Path
) -> None:
    page = opened(driver, address, folder / "good.hlo")
    page.shows("what the passes do", ".codelens-decoration")
    assert not page.driver.find_elements(By.CSS_SELECTOR, ".squiggly-error")
    page.click('.editor-actions [aria-label^="Show Passes"]')
    page.shows("Passes over good.hlo", ".tab .label-name")
    wait_until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "iframe.webview"), "the view")
    page.driver.switch_to.frame(page.one("iframe.webview"))
    wait_until(lambda: page.driver.find_elements(By.ID, "active-frame"), "its frame")
    page.driver.switch_to.frame(page.one("#active-frame"))
    page.shows("fusion", "body")
    page.driver.switch_to.default_content()
