"""Buffer reports of small modules: `tests/golden/memory/*.hlo`, expected text in the first line.

A smaller arena or fewer copies is progress; `pytest --update-golden` writes the new line.
"""

from pathlib import Path

import pytest

import hloc
from hloc.codegen.lower.lowering import lower
from hloc.memory.memory_plan import plan_memory
from hloc.options import CompileOptions

FILES = sorted((Path(__file__).parents[2] / "golden" / "memory").glob("*.hlo"))
HEAD = "// BUFFERS: "


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_report(file: Path, update_golden: bool) -> None:
    text = file.read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    module = hloc.parse(rest)
    lower(module, CompileOptions())
    report = str(plan_memory(module)[1].report)
    if update_golden:
        file.write_text(f"{HEAD}{report}\n{rest}", encoding="utf-8")
        return
    assert first == HEAD + report


def test_there_are_golden_files() -> None:
    assert len(FILES) >= 5
