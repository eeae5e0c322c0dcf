"""Code of kernels is made once per chip, and never taken from a damaged file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hloc.cache_directory import cached_kinds, trim_cache
from hloc.codegen.gpu import code_cache
from hloc.codegen.gpu.code_cache import cached_code, file_name
from hloc.codegen.gpu.nvptx.chips import TRIPLE
from hloc.codegen.gpu.worker import Job
from tests.unit.gpu.simulate import compiled, entry

TEXT = "define ptx_kernel void @k(ptr %p) {\n  store i32 1, ptr %p\n  ret void\n}\n"
JOB = Job("k", TEXT, TRIPLE, "sm_80", "", 2)


def test_the_second_time_llvm_is_not_asked(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = entry("f32[8]", "f32[8] negate(p0)")
    first = compiled(text).ptx
    monkeypatch.setattr(code_cache, "compile_job", None)
    assert compiled(text).ptx == first
    assert cached_kinds() == {"kernel": 1}


def test_another_chip_level_or_form_is_another_file_and_another_source_is_not() -> None:
    others = [
        replace(JOB, cpu="sm_90"),
        replace(JOB, features="+ptx83"),
        replace(JOB, level=3),
        replace(JOB, is_object=True),
        replace(JOB, text=TEXT + "\n"),
    ]
    names = {file_name(job) for job in (JOB, *others)}
    assert len(names) == 6
    assert file_name(replace(JOB, source="fusion.9")) == file_name(JOB)


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"x" * 100])
def test_a_damaged_file_is_made_again(cache_folder: Path, damage: bytes) -> None:
    good = cached_code(JOB)
    (cache_folder / file_name(JOB)).write_bytes(damage)
    assert cached_code(JOB) == good
    assert (cache_folder / file_name(JOB)).read_bytes().endswith(good)


def test_files_are_trimmed_with_the_others(cache_folder: Path) -> None:
    cached_code(JOB)
    trim_cache(0)
    assert not list(cache_folder.glob("kernel-*"))
