"""`hloc run` repeats the run of a snapshot and compares; `hloc convert` changes the format."""

import re
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.formats.proto_literals import fill_literal
from hloc.formats.runtime import message_class
from hloc.formats.to_proto import module_to_proto
from hloc.literal import literal_of
from tests.unit.formats.samples import needs_protobuf

pytestmark = needs_protobuf

ADD = """HloModule add
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT a = f32[4] add(x, y) }"""


def snapshot_file(folder: Path, factor: float, count: int = 2) -> str:
    x = np.arange(4, dtype=np.float32)
    proto = message_class("HloSnapshot")()
    proto.hlo.hlo_module.CopyFrom(module_to_proto(hloc.parse(ADD)))
    for _ in range(count):
        fill_literal(proto.arguments.add(), literal_of(x))
    fill_literal(proto.result, literal_of(x * np.float32(factor)))
    path = folder / "run.pb"
    path.write_bytes(proto.SerializeToString())
    return str(path)


@pytest.mark.parametrize(("factor", "code", "word"), [(2.0, 0, "OK"), (3.0, 1, "FAILED")])
def test_run_compares_with_the_stored_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, code: int, word: str
) -> None:
    assert main(["run", snapshot_file(tmp_path, factor)]) == code
    assert f"compare with snapshot: {word}" in capsys.readouterr().err


def test_arguments_must_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", snapshot_file(tmp_path, 2.0, count=1)]) == 1
    assert "stores 1 arrays as argument, expected 2" in capsys.readouterr().err


def test_text_has_no_stored_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "add.hlo"
    path.write_text(ADD)
    assert main(["run", str(path), "--compare-with=snapshot"]) == 1
    assert "has no stored result" in capsys.readouterr().err


def test_convert_there_and_back(tmp_path: Path) -> None:
    text, packed, again = (str(tmp_path / name) for name in ("a.hlo", "a.pb.gz", "b.hlo"))
    Path(text).write_text(hloc.parse(ADD).to_text())
    assert main(["convert", text, "-o", packed]) == 0
    assert main(["convert", packed, "-o", again]) == 0
    assert Path(again).read_text() == Path(text).read_text()
    assert hloc.load(packed).to_text() == hloc.load(text).to_text()


def test_convert_refuses_a_name_that_says_no_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, other = str(tmp_path / "a.hlo"), str(tmp_path / "a.xyz")
    Path(text).write_text(ADD)
    assert main(["convert", text, "-o", other]) == 1
    assert re.search(r"unknown file extension: .*a\.xyz", capsys.readouterr().err)
    assert not Path(other).exists()
    assert main(["convert", text, "-o", other, "--to=hlo"]) == 0
    assert hloc.load(other).to_text() == hloc.load(text).to_text()
