"""The page docs/passes.md: every pass, from its class, its documentation and the pipelines.

    python -m docs.generators.passes > docs/passes.md

Cost and exactness are sentences of the documentation of a pass.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator

from hloc.codegen.lower.expansion import EXPANSION
from hloc.opt.pass_base import option_kind
from hloc.opt.pipeline import Fixpoint, Pipeline
from hloc.opt.pipelines import ORDER, PIPELINES, STANDS_FOR, pipeline_for
from hloc.opt.registry import ALIASES, PASSES, is_registered, pass_class

INTRODUCTION = """# Passes

Made by `make docs` from the passes themselves: do not edit. `hloc passes NAME` shows one of them,
`--passes=NAME{option=value},NAME` runs them, `docs/writing-a-pass.md` tells how to write one.
A name may have `_` in place of `-`, as in XLA.

Levels are those of `-O0` to `-O3`; a pass of the library runs only when `--passes` names it. A pass
never changes a finite answer beyond the rules of `docs/numerics.md` unless `--fast-math` allows it.
"""

GROUPS = {
    "": "General",
    "calls": "Calls and layers",
    "expanders": "Opcodes without a kernel",
    "layout": "Layouts",
    "indexing": "Gather, scatter and sort",
    "control_flow": "Loops and conditionals",
    "collectives": "Collectives",
    "contraction": "Dot and convolution",
    "windows": "Windows and reductions",
    "movement": "Moving data less",
    "fusion": "Fusion",
    "spmd": "Several devices",
    "library/control_flow": "Library: loops and conditionals",
    "library/contraction": "Library: dot and convolution",
    "library/windows": "Library: windows and reductions",
    "library/indexing": "Library: gather, scatter and dynamic indices",
    "library/linear_algebra": "Library: linear algebra",
    "library/types": "Library: element types",
    "library/movement": "Library: moving data less",
    "library/collectives": "Library: collectives",
}
"""Title by folder of `hloc/opt/`."""

_LOWERING = ("flatten-call-graph", "copy-insertion")
_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z`\[(])")


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, *_table(), *_pipelines(), *_order()]
    for folder, title in GROUPS.items():
        parts += [f"## {title}", ""]
        for name in _names():
            if _folder(name) == folder:
                parts += [*_section(name), ""]
    return "\n".join(parts)


def _names() -> list[str]:
    return sorted(name for name in PASSES if not is_registered(name))


def _folder(name: str) -> str:
    """Return the folder of `hloc/opt/` in which a pass lives, "" for none of its own."""
    return "/".join(PASSES[name].split(":")[0].split(".")[2:-1])


def levels_of(name: str) -> str:
    """Return where a pass runs: `1 2 3`, `all, in lowering`, or `library` for nowhere by itself."""
    if name in _LOWERING:
        return "all, in lowering"
    if _folder(name) == "spmd":
        return "for programs of several devices"
    if name == "hlo-rematerialization":
        return "with `--memory-limit`"
    levels = " ".join(str(i) for i in range(len(PIPELINES)) if name in _pipeline_names(i))
    if name in _inside(Pipeline.parse(EXPANSION).passes):
        return f"{levels}; all, before lowering".lstrip("; ")
    if not levels and name in STANDS_FOR:
        return f"for GPUs, where `{STANDS_FOR[name]}` runs"
    if not levels and name in _inside(pipeline_for(2, "nvptx64").passes):
        return "2 3, for GPUs"
    return levels or "library"


def _pipeline_names(level: int) -> list[str]:
    return list(_inside(pipeline_for(level).passes))


def _inside(passes: object) -> Iterator[str]:
    assert isinstance(passes, tuple)
    for one in passes:
        if isinstance(one, Fixpoint):
            yield from _inside(tuple(one.passes))
        else:
            yield one.name


def _table() -> Iterator[str]:
    yield "| pass | level | what it does |"
    yield "|---|---|---|"
    for name in _names():
        first = _paragraphs(name)[0].replace("|", "\\|")
        yield f"| [`{name}`](#{name}) | {levels_of(name)} | {first} |"
    yield ""


def _pipelines() -> Iterator[str]:
    yield "## The pipelines"
    yield ""
    for level, names in enumerate(PIPELINES):
        told = ", ".join(f"`{name}`" for name in names) or "nothing"
        if level and names == PIPELINES[level - 1]:
            told = f"as `-O{level - 1}`"
        yield f"- `-O{level}`: {told}"
    gpu = str(pipeline_for(2, "nvptx64")).partition(",layout-assignment,")[2]
    yield f"- on GPUs of NVIDIA, after `layout-assignment`: `{gpu}`"
    yield ""


def _order() -> Iterator[str]:
    yield "## Why in this order"
    yield ""
    yield "| before | after | because |"
    yield "|---|---|---|"
    for row in ORDER:
        yield f"| `{row.first}` | `{row.second}` | {row.because} |"
    yield ""


def _section(name: str) -> Iterator[str]:
    """Yield the section of one pass."""
    yield f"### {name}"
    yield ""
    aliases = sorted(alias for alias, target in ALIASES.items() if target == name)
    if aliases:
        yield f"Also called {', '.join(f'`{alias}`' for alias in aliases)}."
        yield ""
    for paragraph in _paragraphs(name):
        yield paragraph
        yield ""
    yield f"- level: {levels_of(name)}"
    yield f"- cost: {_cost(name)}"
    yield f"- exactness: {_exactness(name)}"
    for option in dataclasses.fields(pass_class(name)):
        if option.init:
            default = str(option.default)
            default = default.lower() if option_kind(option) == "bool" else default
            yield f"- option `{option.name.replace('_', '-')}={default}`"


def _paragraphs(name: str) -> list[str]:
    """Return the paragraphs of the documentation, but for the list of fields."""
    text = inspect.getdoc(pass_class(name)) or ""
    text = text.split("\nAttributes:")[0].strip()
    return [_joined(part) for part in re.split(r"\n\s*\n", text)]


def _joined(paragraph: str) -> str:
    """Return a paragraph in one line; lists and indented lines keep their own."""
    lines = paragraph.split("\n")
    if any(line.startswith(("- ", "    ")) for line in lines):
        return paragraph
    return " ".join(line.strip() for line in lines)


def _sentences(name: str) -> list[str]:
    text = " ".join(" ".join(part.split()) for part in _paragraphs(name))
    return _SENTENCE_END.split(text)


def _cost(name: str) -> str:
    for sentence in _sentences(name):
        if "Cost:" in sentence:
            return sentence.split("Cost:")[1].strip().rstrip(".")
    return "O(instructions)"


def _exactness(name: str) -> str:
    found = "exact"
    for sentence in _sentences(name):
        if re.match(r"(Not e|E)xact\b", sentence):
            found = sentence.rstrip(".")
            break
    source = inspect.getsource(sys.modules[pass_class(name).__module__])
    if "fast_math" in source and "fast" not in found:
        found += "; more with `--fast-math`"
    return found[0].lower() + found[1:]


if __name__ == "__main__":
    print(page(), end="")
