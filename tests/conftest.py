"""Options and fixtures of all tests."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

if sys.dont_write_bytecode:
    # Containers often set this. Without bytecode every process compiles and rewrites 450 files of
    # tests and 73 files of Hypothesis again, which is more than half the cost of collection, and
    # every program that a test starts compiles hloc again.
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    sys.dont_write_bytecode = False
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis  # after the lines above: pytest rewrites its assertions, too

# 17,000 collected tests are a million objects that stay: by default Python looks through them again
# and again for cycles, which takes an eighth of the tests' own time.
gc.set_threshold(50_000, 20, 20)

# No test measures time: a busy machine takes longer for one example than for another.
hypothesis.settings.register_profile("hloc", deadline=None)
hypothesis.settings.load_profile("hloc")

os.environ["HLOC_CACHE_DIR"] = ""  # tests compile everything themselves

# NumPy's products are small references here; threads of theirs spin beside the tests' processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts jobs in the background with Ctrl-C ignored, and what they start ignores it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def objects_made_once() -> Iterator[None]:
    """LLVM makes each object once per process: a third of what tests compile is the same text."""
    # Imported here, as collection needs no LLVM.
    from hloc.codegen.gpu.worker import compile_job
    from hloc.codegen.llvm.object_file import compile_object

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hloc.codegen.llvm.object_child.compile_object", cache(compile_object))
        patch.setattr("hloc.codegen.gpu.code_cache.compile_job", cache(compile_job))
        yield


@pytest.fixture(autouse=True)
def no_plugins() -> Iterator[None]:
    """Passes and rules that plug-ins of one test added are gone in the next."""
    yield
    if "hloc.opt.registry" in sys.modules:
        sys.modules["hloc.opt.registry"].forget_registered()


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache for one test, and its folder."""
    from hloc.cache_directory import cache_directory

    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("HLOC_CACHE_DIR", str(folder))
    cache_directory.cache_clear()
    yield folder
    cache_directory.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without Python's collector, which then never looks at what they left."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the expected texts of golden files anew; read the diff afterwards",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
