"""What is written takes the place of a file whole, or not at all."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.errors import HloError
from hloc.output_file import output_to, write_form
from hloc.pictures.graph import write

ROOT = Path(__file__).parents[2]


def test_a_text_ends_with_a_line_end_and_bytes_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_form(str(path), "a")
    assert path.read_bytes() == b"a\n"
    write_form(str(path), b"b")
    assert path.read_bytes() == b"b"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_fault_half_way_leaves_what_was_there(fault: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")

    def write_half() -> None:
        with output_to(str(path)) as file:
            file.write(b"half of the n")
            file.flush()
            raise fault

    with pytest.raises((KeyboardInterrupt, HloError)):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_mode_links_and_folders_without_new_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    os.symlink(path, tmp_path / "link")
    os.link(path, tmp_path / "second")
    write_form(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert path.read_text() == (tmp_path / "second").read_text() == "new\n"
    (tmp_path / "second").unlink()
    write_form(str(tmp_path / "link"), "newer")
    assert path.read_text() == "newer\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_devices_are_written_in_place() -> None:
    write_form(os.devnull, "text")
    with pytest.raises(HloError, match=r"cannot write /dev/full: no space left on device"):
        write_form("/dev/full", "text")
    assert not os.path.isfile(os.devnull)


def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HloError, match="no such file or directory"):
        write_form(str(tmp_path / "none" / "out"), "text")
    with pytest.raises(HloError, match="is a directory"):
        write_form(str(tmp_path), "text")
    with pytest.raises(HloError, match="null"):
        write_form("a\0b", "text")


def test_a_disk_that_is_full_keeps_the_files_of_every_writer(tmp_path: Path) -> None:
    """The limit on the size of a file stands for a full disk: each write beyond it fails."""
    module = tmp_path / "m.hlo"
    numbers = ", ".join(map(str, range(4000)))
    module.write_text(
        f"HloModule m\nENTRY e {{\n  ROOT c = f32[4000] constant({{{numbers}}})\n}}\n"
    )
    outputs = {name: tmp_path / f"out.{name}" for name in ("hlo", "npz", "o")}
    for path in (*outputs.values(), tmp_path / "out.h"):
        path.write_text("old")
    ways = [
        ["fmt", str(module)],
        ["parse", str(module), "-o", str(outputs["hlo"])],
        ["run", str(module), f"--output={outputs['npz']}"],
        [str(module), "-c", "-o", str(tmp_path / "out")],
        [str(module), f"--dump-dir={tmp_path / 'dump'}"],
    ]
    # Python itself leaves half of the files with its bytecode behind.
    environment = {
        "PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"
    }  # fmt: skip
    for way in ways:
        done = subprocess.run(
            [sys.executable, "-m", "hloc", *way, "-q"],
            capture_output=True,
            text=True,
            env=os.environ | environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        )
        assert done.returncode == 1, (way, done)
        assert done.stderr.startswith("hloc: error: cannot write"), done.stderr
        assert "file too large" in done.stderr
    assert module.read_text().endswith("})\n}\n")
    assert {path.read_text() for path in outputs.values()} == {"old"}
    assert not list(tmp_path.glob("**/*unfinished*"))


def test_arrays_are_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with output_to(str(path)) as file:
        np.savez(file, x=np.arange(3))
    assert np.load(path)["x"].tolist() == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_another_user_has_left_in_a_shared_folder_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    precious, path = tmp_path / "precious", tmp_path / "shared" / "out.svg"
    precious.write_text("keys")
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    path.symlink_to(precious) if kind == "link" else path.write_text("trap")
    module = hloc.parse("HloModule m\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n")
    ways = (lambda: write_form(str(path), "a"), lambda: write(module, str(path)))
    lstat, other = os.lstat, os.getuid() + 1

    def of_another(found: str) -> os.stat_result:
        status = list(lstat(found))
        status[4] = other if str(found) == str(path) else status[4]
        return os.stat_result(status)

    for way in ways:
        with monkeypatch.context() as patch:
            patch.setattr(os, "lstat", of_another)
            with pytest.raises(HloError, match=f"another user has put a {kind} there"):
                way()
        assert precious.read_text() == "keys"
    write_form(str(path), "own")  # one's own link is a choice
    assert path.read_text() == "own\n"


def test_no_product_opens_a_file_for_writing_by_itself() -> None:
    """All outputs go through `output_to`; what does not has its reason here."""
    reasons = {
        "hloc/output_file.py": "is it",
        "hloc/report/exits.py": "/dev/null",
        "hloc/cli/process_job.py": "/dev/null",
        "hloc/learn/sandbox.py": "in a temporary folder of its own",
        "hloc/learn/scaffold.py": "in a folder that it has just made",
        "hloc/learn/workplace.py": "copies a lesson; never over a file",
        "hloc/learn/catalogue.py": "the state folder of the user",
        "hloc/codegen/gpu/nvptx/cubin.py": "in a temporary folder of its own",
        "hloc/jax/program.py": "in a temporary folder of its own",
        "hloc/confinement/fork_server.py": "a pipe that it is given",
        "hloc/confinement/process.py": "/proc/self",
        "hloc/lsp/commands.py": "in a temporary folder of its own",
        "hloc/web/array_files.py": "in the folder of its process, never over a file",
        "hloc/web/classroom/work.py": "in a file system of its process",
        "hloc/web/lessons.py": "in a temporary folder of its own",
        "repl/commands/editing.py": "in a temporary folder of its own",
    }
    opens = re.compile(r"""open\([^()\n]*["'][wax]b?["']|\.write_(?:text|bytes)\(""")
    files = [f for room in ("hloc", "repl", "jax_plugins") for f in (ROOT / room).rglob("*.py")]
    found = {f.relative_to(ROOT).as_posix() for f in files if opens.search(f.read_text("utf-8"))}
    assert found == set(reasons)


def test_temporary_files_come_from_tempfile_alone() -> None:
    """It makes folders of mode 0700 under names that nobody can foresee."""
    unsafe = re.compile(r"\bmktemp\(|gettempdir\(|[\"']/tmp\b|NamedTemporaryFile\(.*delete=False")
    files = [f for room in ("hloc", "repl", "jax_plugins") for f in (ROOT / room).rglob("*.py")]
    found = {f.relative_to(ROOT).as_posix() for f in files if unsafe.search(f.read_text("utf-8"))}
    assert found == {"hloc/confinement/file_tree.py"}  # in a file system of its process
