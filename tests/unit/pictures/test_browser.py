"""The page in a real browser: no fault on the console, search and opening work.

Needs Chromium; skipped where there is none. A script is put into the page and admitted by its hash,
since the page runs no other; it leaves what it found in the document.
"""

import json
import os
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from hloc.cli import main
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

TWICE = """HloModule twice

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  ROOT c = f32[4] exponential(b)
}
"""

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


def driven(graph_page: str, script: str) -> str:
    """Return a page of `hloc graph` that runs `script` too."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    text = graph_page.replace("script-src '", f"script-src 'sha256-{digest}' '", 1)
    return text.replace("</body>", f"<script>{script}</script></body>")


def opened(file: Path, budget_ms: int = 20_000) -> str:
    """Return what a browser makes of a page; nothing may be on its console."""
    assert BROWSER is not None
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    one_process = (
        "--disable-features=IsolateSandboxedIframes"  # else virtual time leaves frames out
    )
    done = subprocess.run(
        [
            BROWSER,
            *flags,
            one_process,
            f"--virtual-time-budget={budget_ms}",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert b"CONSOLE" not in done.stderr, done.stderr.decode()
    return done.stdout.decode()


def seen_in(dom: str) -> Any:
    """Return what a script left in the document."""
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found is not None, dom[-2000:]
    return json.loads(unquote(found[1]))


def visit(module: Module, query: str, folder: Path) -> dict[str, Any]:
    """Open the page of a module, search, open everything, and return what was seen."""
    script = DRIVER.replace("%QUERY%", query)
    file = folder / "page.html"
    file.write_text(driven(page(scene_of(module.entry), BOXES_AT_START), script), encoding="utf-8")
    seen: dict[str, Any] = seen_in(opened(file))
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
    effect = {
        "kernels": [1200, 1],
        "effect": "kernels 1,200 → 1",
        "instructions": [4000, 1],
        "rewrites": 1,
    }
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
    dom = opened(file, 5000)
    drawn = dom.count('<tr class="added"')
    assert 100 < drawn < 1000
    assert f"{4000 - drawn:,} rows below" in dom
    assert "<img src=x" not in dom
    assert "kernels 1,200 → 1" in dom
    assert "1 rewrite," in dom


OUTSIDE = """
const seen = [], heard = [];
const here = () => (document.querySelector("tr.here td.side") || {}).textContent || "";
const until = (ready) => new Promise((done) => {
  const look = () => (ready() ? done() : setTimeout(look, 20));
  look();
});
addEventListener("message", (event) => heard.push(event.data));
(async () => {
  withGraph.checked = true;
  showGraph();
  await until(() => frame);
  chooseRow(rows.all.findIndex((row) => row[0] === "-"));
  await until(() => heard.some((message) => message.shown === "a"));
  seen.push(here(), said.textContent);
  frame.contentWindow.postMessage({ show: "nothing" }, "*");
  await until(() => said.textContent);
  seen.push(said.textContent);
  frame.contentWindow.postMessage({ choose: "c" }, "*");
  await until(() => heard.some((message) => message.chosen === "c"));
  seen.push(here());
  document.documentElement.dataset.seen = encodeURIComponent(JSON.stringify(seen));
})();
"""

INSIDE = """
addEventListener("message", (event) => {
  if (event.data.choose) choose(nodes.find((node) => node.box.name === event.data.choose));
});
"""


@pytest.mark.parametrize("in_one_page", [False, True])
def test_rows_and_boxes_of_a_dump_are_linked(tmp_path: Path, in_one_page: bool) -> None:
    """A row shows its instruction in the graph, removed ones too; a box marks its row.

    The graph lies beside the page, or in it as the extension for VS Code has it.
    """
    file = tmp_path / "twice.hlo"
    file.write_text(TWICE)
    passes = "--passes=algebraic-simplifier"
    assert main([str(file), passes, f"--dump-dir={tmp_path}", "-q", "-o", os.devnull]) == 0
    graph_file = tmp_path / "01-algebraic-simplifier.html"
    graph_file.write_text(driven(graph_file.read_text(), INSIDE))
    index = tmp_path / "index.html"
    text = index.read_text().replace("</body>", f"<script>{OUTSIDE}</script></body>")
    if in_one_page:
        graphs = json.dumps({graph_file.name: graph_file.read_text()}).replace("<", "\\u003c")
        element = f'<script type="application/json" id="graphs">{graphs}</script>'
        text = text.replace("<script", f"{element}<script", 1)
        graph_file.unlink()
    index.write_text(text)
    gone = "a = f32[4] negate(x)"
    changed = "ROOT c = f32[4] exponential(x)"
    expected = [gone, "", "nothing has no box of its own", changed]
    assert seen_in(opened(index)) == expected
