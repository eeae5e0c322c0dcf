"""The slider: its states as data, its script in a browser, and the widget where anywidget is."""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import hloc
from hloc.notebook.page_code import script, style
from hloc.notebook.pass_states import PassStates
from hloc.web.highlighting import highlighting
from tests.unit.notebook.test_magics import TEXT, fault
from tests.unit.pictures.test_browser import BROWSER, opened, seen_in

PASSES = "algsimp,cse,fusion"
FUSED = TEXT.replace(
    "ROOT c = f32[4] exponential(b)",
    """c = f32[4] exponential(b)
  ROOT d = f32[4] tanh(c)""",
)

PAGE = """<!doctype html><meta charset="utf-8"><style>%STYLE%</style><body><div id="place"></div>
<script type="module">%SCRIPT%
const answers = %ANSWERS%, listeners = [];
const values = { steps: %STEPS%, highlighting: %HIGHLIGHTING%, state: 0, answer: answers[0] };
const model = {
  get: (name) => values[name],
  set: (name, value) => { values[name] = value; },
  save_changes: () => {
    values.answer = answers[values.state];
    listeners.forEach((call) => call());
  },
  on: (_name, call) => listeners.push(call), off: () => listeners.pop(),
};
const place = document.getElementById("place"), seen = { faults: [] };
const shown = (part) => place.querySelector(part).textContent;
try {
  document.body.dataset.jpThemeLight = "false";
  render({ model, el: place });
  seen.first = [shown(".head"), shown(".told"), shown(".view")];
  const [back, on] = place.querySelectorAll("button"), range = place.querySelector("input");
  seen.ends = [back.disabled, on.disabled];
  on.click();
  seen.second = [shown(".head"), shown(".told"), shown(".view")];
  seen.mark = place.querySelector(".removed") !== null;
  seen.law = place.querySelector(".told code").textContent;
  range.value = answers.length - 1;
  range.dispatchEvent(new Event("input"));
  seen.last = [shown(".head"), on.disabled, values.state];
  seen.paper = getComputedStyle(place.firstElementChild).backgroundColor;
  seen.outside = getComputedStyle(document.body).backgroundColor;
  seen.images = document.images.length;
} catch (fault) { seen.faults.push(String(fault)); }
document.documentElement.dataset.seen = encodeURIComponent(JSON.stringify(seen));
</script>"""


def test_states_are_those_that_passes_made() -> None:
    states = PassStates(hloc.parse(FUSED), PASSES)
    assert [step["pass"] for step in states.steps] == ["input", "algebraic-simplifier", "fusion"]
    assert [states.module(i).instruction_count for i in (0, 1)] == [5, 3]
    answer = states.answer(1)
    assert answer["state"] == 1
    assert [rule["by"] for rule in answer["rules"]] == ["algebraic-simplifier/negate-negate"]
    assert any("negate(x)" in row[1] for row in answer["rows"])
    json.dumps([states.steps, answer])


def test_a_pass_that_does_not_exist_is_refused() -> None:
    with pytest.raises(hloc.HloError, match="there is no pass 'nope'"):
        PassStates(hloc.parse(TEXT), "nope")


def test_the_parts_of_the_script_define_each_name_once() -> None:
    names = re.findall(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", script(), re.MULTILINE)
    assert "render" in names
    assert "drawDiff" in names
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert not re.search(r"^(import|export (?!default))", script(), re.MULTILINE)


def test_the_style_holds_inside_the_widget_only() -> None:
    assert style().startswith(".hloc-passes {")
    assert ":root" not in style()
    assert style().count("{") == style().count("}")


def test_without_anywidget_the_magic_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    told = fault("--slider")
    assert told.startswith("hloc: error: hloc.slider needs the package anywidget")
    assert told.endswith("note: pip install 'hloc[notebook]'")


def test_the_widget_follows_its_state() -> None:
    pytest.importorskip("anywidget", reason="the extra hloc[notebook]")
    widget = hloc.slider(hloc.parse(FUSED), PASSES)
    assert widget.answer["state"] == 0
    widget.state = 1
    assert widget.answer["rules"]
    assert widget.module.instruction_count == 3
    widget.state = 99
    assert widget.state == 2
    with pytest.raises(hloc.HloError, match="is no module"):
        hloc.slider(3)  # type: ignore[arg-type]


def visited(states: PassStates, folder: Path) -> dict[str, Any]:
    """Return what the script shows of some states, in a browser."""
    answers = [states.answer(i) for i in range(len(states.steps))]
    parts = {
        "STYLE": style(),
        "SCRIPT": script().replace("export default", "void"),
        "ANSWERS": json.dumps(answers).replace("<", "\\u003c"),
        "STEPS": json.dumps(states.steps).replace("<", "\\u003c"),
        "HIGHLIGHTING": json.dumps(highlighting()).replace("<", "\\u003c"),
    }
    file = folder / "page.html"
    file.write_text(re.sub("%([A-Z]+)%", lambda found: parts[found[1]], PAGE), encoding="utf-8")
    seen: dict[str, Any] = seen_in(opened(file))
    assert seen["faults"] == []
    return seen


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_script_walks_through_the_states(tmp_path: Path) -> None:
    seen = visited(PassStates(hloc.parse(FUSED), PASSES), tmp_path)
    assert seen["first"][0].startswith("0/2  input")
    assert seen["first"][1] == "The module as it was given."
    assert seen["ends"] == [True, False]
    assert "1/2  algebraic-simplifier" in seen["second"][0]
    assert "negate-negate" in seen["second"][1]
    assert "a = f32[4] negate(x)" in seen["second"][2]
    assert seen["mark"]
    assert seen["law"]
    assert seen["last"] == [seen["last"][0], True, 2]
    assert "2/2  fusion" in seen["last"][0]
    assert seen["paper"] == "rgb(20, 23, 28)", "dark, as JupyterLab says"
    assert seen["outside"] == "rgba(0, 0, 0, 0)", "the notebook keeps its own colours"


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_names_stay_text_in_the_script(tmp_path: Path) -> None:
    target = 'custom-call(b), custom_call_target="<img src=x onerror=alert(1)>"'
    module = hloc.parse(TEXT.replace("exponential(b)", target))
    seen = visited(PassStates(module, "algsimp"), tmp_path)
    assert seen["images"] == 0
    assert "<img src=x" in seen["second"][2]
