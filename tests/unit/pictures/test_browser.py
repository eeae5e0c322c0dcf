"""The page in a real browser: no fault on the console, search and opening work.

Needs Chromium; skipped where there is none. A script is put into the page and admitted by its hash,
since the page runs no other; it leaves what it found in the document.
"""

import json
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hloc.cli.explorer_page import explorer_page
from hloc.ir.module import Module
from hloc.pictures import graph
from hloc.pictures.page import page
from hloc.pictures.places import BOXES_AT_START
from hloc.pictures.scene import scene_of
from tests.unit.pictures.modules import HOSTILE, hostile, layered_model, small
from tests.waiting import PATIENCE

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((path for path in map(shutil.which, NAMES) if path), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]

DRIVER = """
const seen = { title: document.title, faults: [] };
addEventListener("error", (event) => seen.faults.push(event.message));
const count = () => +document.body.dataset.boxes;
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const type = (words) => {
  const box = document.getElementById("search");
  box.value = words;
  box.dispatchEvent(new Event("input"));
  box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
};
seen.start = count();
const shut = nodes.find((node) => !node.nodes.length && canOpen(node.box));
seen.opens = !shut;
if (shut) {
  centre(shut);
  const area = paper.getBoundingClientRect();
  const at = { clientX: area.left + (shut.x + shut.w / 2) * view.k + view.x,
    clientY: area.top + (shut.y + shut.h / 2) * view.k + view.y, bubbles: true };
  for (const name of ["pointerdown", "pointerup", "pointerdown", "pointerup"])
    paper.dispatchEvent(new PointerEvent(name, at));
  seen.opens = shut.nodes.length > 0 && count() > seen.start;
  press("c");
}
type("%QUERY%");
seen.hits = document.getElementById("hits").textContent;
seen.panel = document.getElementById("side").textContent;
seen.found = count();
for (let i = 0; i < 12; i++) press("e");
seen.all = count();
seen.surface = document.querySelector("#paper > *").tagName.toLowerCase();
for (const key of ["f", "+", "-", "j", "k", "o", "ArrowDown", "Escape"]) press(key);
for (const overlay of ["bytes", "flops", "changed", "kind"]) {
  document.getElementById("overlay").value = overlay;
  document.getElementById("overlay").dispatchEvent(new Event("change"));
}
press("c");
seen.again = count();
document.documentElement.dataset.seen = encodeURIComponent(JSON.stringify(seen));
"""


def visit(module: Module, query: str, folder: Path) -> dict[str, Any]:
    """Open the page of a module, search, open everything, and return what was seen."""
    script = DRIVER.replace("%QUERY%", query)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    text = page(scene_of(module.entry), BOXES_AT_START)
    text = text.replace("script-src '", f"script-src 'sha256-{digest}' '", 1)
    text = text.replace("</body>", f"<script>{script}</script></body>")
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    assert BROWSER is not None
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    done = subprocess.run(
        [BROWSER, *flags, "--virtual-time-budget=20000", "--dump-dom", file.as_uri()],
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert b"CONSOLE" not in done.stderr, done.stderr.decode()
    found = re.search(rb'data-seen="([^"]*)"', done.stdout)
    assert found is not None, done.stderr.decode()
    from urllib.parse import unquote

    seen: dict[str, Any] = json.loads(unquote(found[1].decode()))
    assert seen["faults"] == []
    assert seen["opens"]
    return seen


def test_a_small_module_is_wholly_open(tmp_path: Path) -> None:
    seen = visit(small(), "maximum", tmp_path)
    assert seen["hits"] == "1 of 1"
    assert "reduce maximum(·, -inf)" in seen["panel"]
    assert seen["start"] == seen["all"] == 7
    assert seen["surface"] == "svg"


def test_search_opens_what_holds_the_hit(tmp_path: Path) -> None:
    seen = visit(layered_model(60), "layer_30/mul", tmp_path)
    assert seen["start"] <= BOXES_AT_START
    assert seen["hits"].startswith("1 of ")
    assert seen["found"] > seen["start"]
    assert "layer_30" in seen["panel"]
    assert seen["again"] == seen["start"]


def test_eight_thousand_boxes_are_drawn_on_canvas(tmp_path: Path) -> None:
    seen = visit(layered_model(200, width=41), "v8000", tmp_path)
    assert seen["all"] > 8000
    assert seen["surface"] == "canvas"


def test_hostile_names_run_nothing(tmp_path: Path) -> None:
    seen = visit(hostile(), "onerror", tmp_path)
    assert "onerror" in seen["panel"]
    assert "onerror" in seen["title"]


def test_a_difference_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    graph.write(layered_model(3), str(path), before=layered_model(2))
    assert '"changed":true' in path.read_text(encoding="utf-8")


def test_the_page_of_passes_draws_rows_as_they_come_into_view(tmp_path: Path) -> None:
    """A step with thousands of rows opens at once; hostile texts stay texts."""
    rows = [["+", "", f"x{i} = f32[8] negate({HOSTILE})", "rule"] for i in range(4000)]
    effect = {"kernels": [1200, 1], "effect": "", "instructions": [4000, 1], "rewrites": 1}
    step = {
        "number": 1,
        "pass": "dce",
        "text": "dce",
        "changed": True,
        "wall_ms": 1.0,
        "rows": rows,
    }
    file = tmp_path / "index.html"
    data = {"module": HOSTILE, "pipeline": "dce", "steps": [step | effect]}
    file.write_text(explorer_page(data), encoding="utf-8")
    assert BROWSER is not None
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    done = subprocess.run(
        [BROWSER, *flags, "--virtual-time-budget=5000", "--dump-dom", file.as_uri()],
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert b"CONSOLE" not in done.stderr, done.stderr.decode()
    drawn = done.stdout.count(b'<tr class="added"')
    assert 100 < drawn < 1000
    assert f"{4000 - drawn:,} rows below".encode() in done.stdout
    assert b"<img src=x" not in done.stdout
    assert "1,200 → 1".encode() in done.stdout
    assert b"1 rewrite," in done.stdout
