"""The cache under kill -9 at each write, damage of each byte, swapped files, several processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hloc.cache_directory import unsealed, write_whole

ROOT = Path(__file__).parents[3]

TEXT = """
import os, signal, sys
import numpy as np
import hloc

def text(i):
    return (f"HloModule m\\nENTRY e {{ x = f32[{i}] parameter(0)\\n"
            f" e = f32[{i}] exponential(x)\\n c = f32[{i}] iota(), iota_dimension=0\\n"
            f" ROOT y = f32[{i}] add(e, c) }}")

def right(i):
    return hloc.compile(text(i))(np.zeros(i, np.float32))[0].tolist() == [k + 1 for k in range(i)]

right(3)
"""

KILLED = """
for stop in range(200):
    child = os.fork()
    if child == 0:
        left = [stop]
        def counted(function):
            def call(*args, **kwargs):
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return function(*args, **kwargs)
            return call
        for name in ("open", "write", "close", "replace", "unlink"):
            setattr(os, name, counted(getattr(os, name)))
        right(10 + stop)
        os._exit(7)
    code = os.waitpid(child, 0)[1]
    assert right(10 + stop), stop
    if os.waitstatus_to_exitcode(code) == 7:
        break
print(stop)
"""

TOGETHER = """
for i in list(range(20, 26)) + list(range(20, 26)):
    assert right(i), i
"""


def in_process(program: str, cache_folder: Path) -> "subprocess.Popen[str]":
    """Start a process that uses the cache `cache_folder`."""
    return subprocess.Popen(
        [sys.executable, "-c", TEXT + program],
        env=os.environ | {"PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": str(cache_folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_whole(cache_folder: Path) -> None:
    """Check that every file of the cache holds what it was given."""
    for path in cache_folder.iterdir():
        if not path.name.startswith(("unfinished-", "trimmed", "tuning-")):
            assert unsealed(path.name, path.read_bytes()) is not None, path.name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_killed_at_any_write_leaves_a_good_cache(cache_folder: Path) -> None:
    said, fault = in_process(KILLED, cache_folder).communicate()
    assert not fault
    assert int(said) >= 6, "at least two files were opened, written, closed and renamed"
    assert_whole(cache_folder)


def test_processes_share_a_cache(cache_folder: Path) -> None:
    for process in [in_process(TOGETHER, cache_folder) for _ in range(3)]:
        assert process.communicate() == ("", "")
        assert process.returncode == 0
    assert_whole(cache_folder)
    assert not list(cache_folder.glob("unfinished-*"))


def test_no_damage_of_a_file_is_read(cache_folder: Path) -> None:
    """Each length, each byte and each other name."""
    assert in_process("", cache_folder).communicate() == ("", "")
    files = {path.name: path.read_bytes() for path in cache_folder.iterdir()}
    sealed = {n: data for n, data in files.items() if n.startswith(("object-", "program-"))}
    assert len(sealed) >= 2
    for name, data in sealed.items():
        assert unsealed(name, data) == data[32:]
        for other in sealed:
            assert other == name or unsealed(other, data) is None
        for length in range(len(data)):
            assert unsealed(name, data[:length]) is None
        for at in range(len(data)):
            damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
            assert unsealed(name, damaged) is None


def test_what_killed_writers_left_is_removed(cache_folder: Path) -> None:
    from hloc.cache_directory import trim_cache

    write_whole(cache_folder, "object-1.o", b"whole")
    old, new = cache_folder / "unfinished-1_2", cache_folder / "unfinished-3_4"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    trim_cache(1 << 20)
    assert sorted(os.listdir(cache_folder)) == ["object-1.o", "unfinished-3_4"]
