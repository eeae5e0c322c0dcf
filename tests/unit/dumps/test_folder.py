"""Which file of a dump is what, under the names that XLA's backends give."""

from pathlib import Path

import pytest

from hloc.dumps.folder import DumpModule, chosen_module, modules_named, read_folder
from hloc.errors import HloError

TEXT = "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\n"


def _read(folder: Path, *names: str) -> tuple[DumpModule, ...]:
    for name in names:
        (folder / name).write_text(TEXT)
    return read_folder(str(folder)).modules


@pytest.mark.parametrize(
    "after",
    [
        "cpu_after_optimizations",
        "sm_9.0_gpu_after_optimizations",
        "gfx942_gpu_after_optimizations",
        "gpu_after_optimizations",
        "after_optimizations",
        "after_codegen",
    ],
)
def test_the_last_module_of_each_backend_is_found(after: str, tmp_path: Path) -> None:
    names = ("before_optimizations.txt", f"{after}.txt", f"{after}-buffer-assignment.txt")
    (module,) = _read(tmp_path, *(f"module_0001.jit_f.1.{name}" for name in names))
    assert (module.name, module.title) == ("module_0001.jit_f.1", "jit_f.1")
    assert module.before is not None
    assert module.after is not None
    assert module.after.after == after
    assert list(module.texts) == ["buffer-assignment"]


def test_a_tpu_writes_two_last_modules(tmp_path: Path) -> None:
    ends = ("after", "before")
    start = "module_0003.jit_f.cl_60.after_optimizations"
    (module,) = _read(tmp_path, *(f"{start}_{end}_buffer_assignment.txt" for end in ends))
    assert module.name == "module_0003.jit_f.cl_60"
    assert module.after is not None
    assert module.after.after == "after_optimizations_after_buffer_assignment"


def test_passes_are_in_order_and_text_comes_before_protocol_buffers(tmp_path: Path) -> None:
    (module,) = _read(
        tmp_path,
        "17.module_0000.jit_f.0010.late.after_dce.before_cse.txt",
        "17.module_0000.jit_f.0010.late.after_dce.before_cse.hlo.pb",
        "17.module_0000.jit_f.0009.late.after_pipeline-start.before_dce.txt.gz",
        "17.module_0000.jit_f.0011.copy-insertion.after_adding_special-case_copies.txt",
    )
    assert [file.how for file in module.passes] == [
        "late starts",
        "late/dce",
        "copy-insertion/adding_special-case_copies",
    ]
    assert module.passes[1].path.endswith(".txt")
    assert module.history == module.passes


def test_files_of_others_are_named_and_texts_with_other_names_are_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "notes.txt").write_text("HloModule is a word in these notes\n".replace("H", "An H"))
    assert [m.name for m in _read(tmp_path, "b.hlo", "a.txt")] == ["a.txt", "b.hlo"]
    found = read_folder(str(tmp_path))
    assert found.others == ("notes.txt",)
    _read(tmp_path, "module_0000.f.before_optimizations.txt", "module_0000.f.kernel.ir-no-opt.ll")
    found = read_folder(str(tmp_path))
    assert [m.name for m in found.modules] == ["module_0000.f"]
    assert found.others == ("a.txt", "b.hlo", "notes.txt")


def test_the_module_with_most_files_is_the_default(tmp_path: Path) -> None:
    _read(
        tmp_path,
        "module_0000.f.before_optimizations.txt",
        "module_0001.g.before_optimizations.txt",
        "module_0001.g.cpu_after_optimizations.txt",
    )
    found = read_folder(str(tmp_path))
    assert chosen_module(found, "").title == "g"
    assert chosen_module(found, "f").title == "f"
    with pytest.raises(
        HloError, match=r"the dump has no module 'h'; it has module_0000\.f, module_"
    ):
        modules_named(found, "h")


def test_folders_without_modules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HloError, match="no such file"):
        read_folder(str(tmp_path / "missing"))
    with pytest.raises(HloError, match="is empty") as caught:
        read_folder(str(tmp_path))
    assert "xla_dump_to" in caught.value.diagnostics[0].notes[0]
    (tmp_path / "a.txt").write_text("no HLO")
    with pytest.raises(HloError, match="contains no HLO module"):
        read_folder(str(tmp_path))
