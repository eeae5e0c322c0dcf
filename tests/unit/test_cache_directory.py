"""Files of the cache are written whole, and the directory is looked at now and then only."""

import os
import time
from pathlib import Path

import pytest

from hloc import cache_directory
from hloc.cache_directory import read_cached, trim_cache_daily, write_cached, write_whole


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 300])
def test_what_is_written_is_read(cache_folder: Path, data: bytes) -> None:
    write_cached("object-1.o", data)
    assert read_cached("object-1.o") == data
    assert os.listdir(cache_folder) == ["object-1.o"]
    assert (cache_folder / "object-1.o").stat().st_mode & 0o777 == 0o600


def test_a_file_is_whole_though_the_system_takes_few_bytes_at_a_time(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    write_whole(cache_folder, "object-1.o", bytes(100))
    assert read_cached("object-1.o") == bytes(100)


def test_a_file_that_cannot_be_written_is_not_there(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    write_cached("object-1.o", b"much")
    assert read_cached("object-1.o") is None
    assert not os.listdir(cache_folder), "a full disk gets fuller with each attempt"


def test_the_directory_is_trimmed_daily_and_looked_at_hourly(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_directory, "_NEXT_LOOK", {})
    started = time.time()
    limits: list[int] = []
    monkeypatch.setattr(cache_directory, "trim_cache", limits.append)
    for hours in (0, 0.9, 2, 23, 25.5, 26):
        monkeypatch.setattr(time, "time", lambda hours=hours: started + hours * 3600)
        trim_cache_daily(round(hours * 10))
    assert limits[:2] == [0, 255]
    (cache_folder / "trimmed").unlink()
    trim_cache_daily(1)  # within the hour: nobody looks
    assert 1 not in limits
