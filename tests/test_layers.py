"""Imports go down: a file imports its own floor and the floors below it, never above.

Read from the sources, so imports inside functions and under TYPE_CHECKING count, and so do the
"module:Name" strings of registries. Optional packages stay in their rooms. No file imports itself
by way of others, inside functions either; files that only name each other's types in annotations
stand in `MUTUAL_TYPES`. The floors are explained in docs/architecture.md.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.import_graph import SOURCE_FOLDERS, Import, cycles, imports_of, module_name, sources

ROOT = Path(__file__).resolve().parents[1]

FLOORS: tuple[tuple[str, ...], ...] = (  # ground floor first
    (
        "hloc.ir",
        "hloc.diagnostics",
        "hloc.errors",
        "hloc.source",
        "hloc.dtypes",
        "hloc.shapes",
        "hloc.literal",
        "hloc.cache_directory",
        "hloc.private_files",
        "hloc.child_process",
        "hloc.python_process",
        "hloc.confinement",
        "hloc.input_files",
        "hloc.output_file",
        "hloc.framing",
        "hloc.address_space",
        "hloc.framed_arrays",
        "hloc.deferred_import",
        "hloc.lazy_dataclass",
        "hloc.limits",
        "hloc.near_names",
        "hloc.quantities",
        "hloc.prime_factors",
        "hloc.capsules",
        "hloc.scipy_routines",
        "hloc.collection",
        "hloc.options",
    ),
    ("hloc.ops",),
    ("hloc.parser",),
    (
        "hloc.analysis",
        "hloc.editors",
        "hloc.evaluator",
        "hloc.formats",
        "hloc.ptx",
        "hloc.stablehlo",
    ),
    ("hloc.opt",),
    ("hloc.memory", "hloc.pictures", "hloc.prove"),
    ("hloc.codegen.backend_names",),
    ("hloc.codegen.llvm", "hloc.codegen"),
    ("hloc.codegen.builder",),
    ("hloc.codegen.elements",),
    ("hloc.codegen.kernels",),
    ("hloc.codegen.lower",),
    ("hloc.codegen.plan",),
    ("hloc.codegen.backend",),
    ("hloc.codegen.cpu", "hloc.codegen.gpu"),
    ("hloc.runtime",),
    ("hloc.driver", "hloc"),  # `hloc` itself: the public names
    ("hloc.report",),
    ("hloc.dumps", "hloc.lsp", "hloc.pjrt"),
    ("hloc.jax", "hloc.torch", "jax_plugins"),
    ("hloc.learn", "hloc.lessons"),
    ("repl",),
    ("hloc.web",),
    ("hloc.cli", "hloc.__main__"),
    ("hloc.notebook",),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Packages that are not Python's own, and the rooms that may import them.
EVERYWHERE = ("hloc", "repl")
PACKAGES: dict[str, tuple[str, ...]] = {
    "numpy": EVERYWHERE,
    "ml_dtypes": EVERYWHERE,
    "lark": ("hloc.parser",),
    "llvmlite": ("hloc.codegen", "hloc.runtime"),
    "rich": ("repl", "hloc.cli"),
    "prompt_toolkit": ("repl",),
    "google": ("hloc.formats",),  # protobuf
    "pygments": ("hloc.editors",),
    "pygls": ("hloc.lsp",),
    "lsprotocol": ("hloc.lsp",),
    "cuda": ("hloc.runtime",),
    "mpi4py": ("hloc.runtime",),
    "jax": ("hloc.jax", "hloc.pjrt", "repl"),
    "jaxlib": ("hloc.formats", "hloc.jax", "hloc.pjrt", "repl"),
    "scipy": ("hloc.ops",),
    "torch": ("hloc.torch",),
    "z3": ("hloc.prove",),
    "IPython": ("hloc.notebook",),
    "anywidget": ("hloc.notebook",),
    "traitlets": ("hloc.notebook",),
    "functorch": ("hloc.torch",),
    "anyio": ("hloc.web",),
    "starlette": ("hloc.web",),
    "uvicorn": ("hloc.web",),
}
ONLY_INSIDE_FUNCTIONS = {
    ("hloc.cli", "rich"),
    ("hloc.formats", "google"),
    ("hloc.formats", "jaxlib"),
    ("hloc.jax", "jax"),
    ("hloc.jax", "jaxlib"),
    ("hloc.notebook", "IPython"),
    ("hloc.ops", "scipy"),
    ("hloc.pjrt", "jax"),
    ("hloc.runtime", "mpi4py"),
    ("hloc.pjrt", "jaxlib"),
    ("hloc.torch", "functorch"),
    ("hloc.torch", "torch"),
    ("hloc.prove", "z3"),
    ("repl", "jax"),
    ("repl", "jaxlib"),
}  # `hloc --version` must not wait for it

REGISTRIES = {"hloc", "hloc.codegen.backend_names"}
"""Rooms that name what is loaded when it is asked for, on any floor: in strings and annotations."""

FOLDERS_WITH_PYTHON = {*SOURCE_FOLDERS, "tests", "examples", "benchmarks", "docs", "fuzz"}


def room_of(module: str) -> str | None:
    """Return the room of a module, the longest listed prefix; None if it stands in none.

    `hloc` is a room for itself alone: `hloc.strange` does not fall into it.
    """
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        room = ".".join(parts[:length])
        if room in FLOOR_OF and (room != "hloc" or module == "hloc"):
            return room
    return None


def faults_of_import(room: str, imported: Import) -> Iterator[str]:
    """Yield what is wrong with one import of a file in `room`."""
    top = imported.target.partition(".")[0]
    if (imported.by_name or imported.for_types) and room in REGISTRIES:
        return
    if imported.star:
        yield f"imports * from {imported.target}"
    if top in SOURCE_FOLDERS:
        target = room_of(imported.target)
        if target is None:
            yield f"imports {imported.target}, which stands on no floor"
        elif FLOOR_OF[target] > FLOOR_OF[room]:
            yield f"floor {FLOOR_OF[room]} imports {imported.target} of floor {FLOOR_OF[target]}"
    elif top not in sys.stdlib_module_names:
        rooms = PACKAGES.get(top, ())
        if not any(room == r or room.startswith(f"{r}.") for r in rooms):
            yield f"imports {top}, allowed only in: {', '.join(rooms) or 'no room'}"
        elif (room, top) in ONLY_INSIDE_FUNCTIONS and not imported.inside_function:
            yield f"imports {top} at module level, allowed only inside functions"


def faults(root: Path) -> list[str]:
    """Return what is wrong with the house at `root`, one line each, sorted."""
    found = []
    for file in sources(root):
        where = file.relative_to(root)
        room = room_of(module_name(file, root))
        if room is None:
            found.append(f"{where}: stands on no floor")
            continue
        found += [
            f"{where}:{imported.line}: {fault}"
            for imported in imports_of(file, root)
            for fault in faults_of_import(room, imported)
        ]
    found += [f"{path.name}/: a folder with Python that no plan names" for path in strangers(root)]
    return sorted(found)


def strangers(root: Path) -> Iterator[Path]:
    """Yield top-level folders that hold Python sources of the project but should not."""
    for path in root.iterdir():
        if path.name in FOLDERS_WITH_PYTHON or path.name in ("build", "dist", "typings"):
            continue
        if path.name.startswith(".") or not path.is_dir() or (path / "pyvenv.cfg").exists():
            continue
        if any(path.rglob("*.py")):
            yield path


def test_imports_go_down_and_packages_stay_in_their_rooms() -> None:
    found = faults(ROOT)
    assert not found, "\n".join(found)


ROOMS_OF_GEMMS = ("micro_kernels", "packing", "packed", "unpacked")  # lowest first


def gemm_room(module: str) -> int:
    """Return the place of a module in `ROOMS_OF_GEMMS`: -1 elsewhere, 4 beside the rooms."""
    package = "hloc.codegen.cpu.emitters.gemm."
    if not module.startswith(package):
        return -1
    room = module.removeprefix(package).split(".")[0]
    return ROOMS_OF_GEMMS.index(room) if room in ROOMS_OF_GEMMS else len(ROOMS_OF_GEMMS)


def test_rooms_of_gemms_import_lower_ones_only() -> None:
    graph = import_graph(ROOT, for_types=True)
    found = [
        f"{module} imports {target}"
        for module, targets in graph.items()
        if gemm_room(module) >= 0
        for target in targets
        if gemm_room(target) > gemm_room(module)
    ]
    assert not found, "\n".join(found)


MUTUAL_TYPES: tuple[tuple[str, str, str], ...] = (
    (
        "hloc.ir",
        "async_chain compact_elements computation events instruction module module_tools opcode "
        "print_order printer",
        "one recursive data type: a module holds computations, which hold instructions, which call "
        "computations; Module.to_text prints it",
    ),
    (
        "hloc.ptx",
        "code copies instructions.mbarrier_access instructions.memory_access instructions.moves "
        "instructions.tensor_copies mbarriers metrics operation products threads",
        "Threads holds all that instructions act on, and each part takes the Threads it is part of",
    ),
)
"""Package, files that name each other's types, and why; such imports cost nothing at run time."""


def import_graph(root: Path, *, for_types: bool) -> dict[str, set[str]]:
    """Return module -> the modules it imports, those of annotations only with `for_types`.

    Strings of registries are no edges: a table of names does not need what it names.
    """
    modules = {module_name(file, root): file for file in sources(root)}
    return {
        module: {
            imported.target
            for imported in imports_of(file, root)
            if imported.target in modules
            and imported.target != module
            and not imported.by_name
            and (for_types or not imported.for_types)
        }
        for module, file in modules.items()
    }


def test_no_imports_in_a_circle_at_run_time() -> None:
    found = cycles(import_graph(ROOT, for_types=False))
    assert not found, "\n".join(" <-> ".join(cycle) for cycle in found)


def test_files_that_share_types_are_listed() -> None:
    """A circle of annotations that grows, shrinks or goes is a change of this table."""
    listed = sorted(
        tuple(sorted(f"{package}.{file}" for file in files.split()))
        for package, files, _ in MUTUAL_TYPES
    )
    assert cycles(import_graph(ROOT, for_types=True)) == listed


PLANTED_CYCLES = {
    "at module level": "import hloc.b",
    "inside a function": "def f():\n    from hloc import b",
    "in an annotation": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import hloc.b",
}


@pytest.mark.parametrize("case", PLANTED_CYCLES)
def test_a_planted_cycle_is_found(case: str, tmp_path: Path) -> None:
    (tmp_path / "hloc").mkdir()
    (tmp_path / "hloc/a.py").write_text(PLANTED_CYCLES[case])
    (tmp_path / "hloc/b.py").write_text("import hloc.c")
    (tmp_path / "hloc/c.py").write_text("import hloc.a\nTABLE = {'d': 'hloc.d:D'}")
    (tmp_path / "hloc/d.py").write_text("import hloc.c")
    circle = ("hloc.a", "hloc.b", "hloc.c")
    at_run_time = [] if case == "in an annotation" else [circle]
    assert cycles(import_graph(tmp_path, for_types=False)) == at_run_time
    assert cycles(import_graph(tmp_path, for_types=True)) == [circle]


def test_every_floor_has_files() -> None:
    """A room that is renamed without the table would no longer be guarded."""
    rooms = {room_of(module_name(file, ROOT)) for file in sources(ROOT)}
    assert {FLOOR_OF[room] for room in rooms if room} == set(range(len(FLOORS)))


PLANTED = {
    "upward": ("hloc/ir/a.py", "from hloc.opt import dce", "floor 0 imports hloc.opt"),
    "inside a function": (
        "hloc/ops/a.py",
        "def f():\n    import hloc.parser.to_ir",
        "floor 1 imports hloc.parser.to_ir of floor 2",
    ),
    "only for types": (
        "hloc/ir/a.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hloc.memory import heap",
        "floor 0 imports hloc.memory",
    ),
    "relative": ("hloc/memory/a.py", "from ..codegen import plan", "floor 5 imports hloc.codegen"),
    "member of the package": (
        "hloc/opt/a.py",
        "from hloc import driver",
        "hloc.driver of floor 16",
    ),
    "public name": ("hloc/opt/a.py", "from hloc import compile", "imports hloc of floor 16"),
    "by name at run time": (
        "hloc/ops/a.py",
        "import importlib\nm = importlib.import_module('hloc.opt.dce')",
        "floor 1 imports hloc.opt.dce",
    ),
    "registry string": (
        "hloc/opt/a.py",
        "T = {'x': 'hloc.runtime.y:Z'}",
        "hloc.runtime.y of floor 15",
    ),
    "repl from the compiler": ("hloc/driver.py", "import repl.app", "imports repl.app of floor 21"),
    "llvmlite outside codegen": ("hloc/opt/a.py", "import llvmlite.binding", "imports llvmlite"),
    "rich in the compiler": ("hloc/errors.py", "def f():\n    import rich", "imports rich"),
    "rich at start of the command line": ("hloc/cli/a.py", "import rich", "only inside functions"),
    "the command line from the REPL": (
        "repl/a.py",
        "from hloc.cli import options",
        "floor 21 imports hloc.cli of floor 23",
    ),
    "unknown package": ("repl/a.py", "import pandas", "imports pandas, allowed only in: no room"),
    "star": ("hloc/opt/a.py", "from hloc.ir import *", "imports * from hloc.ir"),
    "unknown room": ("hloc/utils/a.py", "", "stands on no floor"),
    "unknown file": ("hloc/helpers.py", "", "stands on no floor"),
    "unknown folder": ("scripts/a.py", "", "scripts/: a folder with Python"),
    "import of an unknown room": ("hloc/opt/a.py", "import hloc.utils", "stands on no floor"),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_fault_is_found(case: str, tmp_path: Path) -> None:
    path, source, expected = PLANTED[case]
    for room in ("ir", "opt", "codegen", "memory", "driver.py"):
        (tmp_path / "hloc" / room).parent.mkdir(exist_ok=True)
        if room.endswith(".py"):
            (tmp_path / "hloc" / room).touch()
        else:
            (tmp_path / "hloc" / room).mkdir()
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    found = faults(tmp_path)
    assert len(found) == 1, found
    assert expected in found[0]


GOOD = {
    "hloc/opt/a.py": "import numpy\nfrom hloc.ir import module\nfrom . import b",
    "hloc/opt/b.py": "import dataclasses\nfrom hloc.errors import HloError",
    "hloc/codegen/a.py": "import llvmlite.binding as llvm",
    "hloc/cli/a.py": "def f():\n    import rich.table",
    "repl/a.py": "import rich, prompt_toolkit\nimport hloc\nfrom hloc.opt import a",
    "tests/a.py": "import anything",
}


def test_a_clean_house_has_no_fault(tmp_path: Path) -> None:
    for path, source in GOOD.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    assert faults(tmp_path) == []
