"""Counters of the processor: counted where there are some, else words that say why not."""

import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from hloc.cli import main
from hloc.runtime import hardware_counters
from hloc.runtime.hardware_counters import CountersMissing, counting

Capture = pytest.CaptureFixture[str]

SOFTWARE = {"nanoseconds": (1, 1), "page faults": (1, 2)}
"""Events that Linux counts itself, also in virtual machines."""

TEXT = "HloModule m\n\nENTRY e {\n  x = f32[64] parameter(0)\n  ROOT r = f32[64] add(x, x)\n}\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return str(path)


def test_events_of_a_region_are_counted() -> None:
    try:
        with counting(SOFTWARE) as counts:
            for _ in range(3):
                np.ones(1 << 20).sum()
    except CountersMissing as reason:
        pytest.skip(f"no counters: {reason}")
    assert counts.events["nanoseconds"] > 10_000


def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, file: str
) -> None:
    def refused(_event: object, _thread: int) -> int:
        raise CountersMissing("Permission denied")

    monkeypatch.setattr(hardware_counters, "_opened", refused)
    assert main(["bench", file, "--counters", "--repeat=2"]) == 0
    assert "no hardware counters: Permission denied" in capsys.readouterr().out
    assert main(["bench", file, "--counters", "--repeat=2", "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["counters"] is None


def test_counts_are_of_one_run(monkeypatch: pytest.MonkeyPatch, capsys: Capture, file: str) -> None:
    """Every counter of every thread reads 2,000 for twenty runs."""
    monkeypatch.setattr(
        hardware_counters, "_opened", lambda _event, _thread: os.open(os.devnull, os.O_RDONLY)
    )
    monkeypatch.setattr(hardware_counters, "_switch", lambda _files, _how: None)
    monkeypatch.setattr(hardware_counters, "_read", lambda _file: 2_000)
    assert main(["bench", file, "--counters", "--repeat=2", "--threads=1"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("each run of hloc: ")
    assert line.endswith(" branch misses; 1.00 instructions per cycle")
    assert main(["bench", file, "--counters", "--repeat=2", "--format=json"]) == 0
    found = json.loads(capsys.readouterr().out)["counters"]
    assert set(found) == {"cycles", "instructions", "cache_misses", "branch_misses"}
    assert all(count >= 100 and count % 100 == 0 for count in found.values())


@pytest.mark.skipif(sys.platform != "linux", reason="the system call is Linux's")
def test_an_unknown_event_is_refused_in_words() -> None:
    with pytest.raises(CountersMissing) as caught, counting({"nothing": (77, 99)}):
        pass
    reasons = ("shows none", "not allowed", os.strerror(errno.EINVAL), os.strerror(errno.ENOSYS))
    assert str(caught.value).endswith(reasons) or "not allowed" in str(caught.value)
