"""Files are known by content; text is never taken for anything else."""

import builtins
from typing import Any

import pytest

import hloc
from hloc.errors import HloError
from hloc.formats import jaxlib_converter, runtime
from hloc.formats.read import read_snapshot
from hloc.formats.sniff import BYTECODE, GZIP, STABLEHLO, TEXT, kind_of
from hloc.formats.to_proto import module_to_bytes
from hloc.formats.write import module_bytes
from tests.unit.formats.samples import SAMPLES, needs_jaxlib, needs_protobuf


@pytest.mark.parametrize("text", [*SAMPLES.values(), "", "\n\n", "// only a comment", "module {"])
def test_hlo_text_is_text(text: str) -> None:
    assert kind_of(text.encode()) == TEXT


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"module @m {", STABLEHLO),
        (b"// made by x\nmodule attributes {a = 1} {", STABLEHLO),
        (b'#loc1 = loc("x")\nmodule', STABLEHLO),
        (b"module {\n  func.func @main", STABLEHLO),
        (b"ML\xefR\x0d", BYTECODE),
        (b"\x1f\x8b\x08", GZIP),
        (b"\x7fELF\x02\x01\x01\x00", "an ELF object or program"),
        (b"PK\x03\x04\x14\x00\x00\x00", "a zip archive (.npz, .whl, .docx)"),
        (b"\x93NUMPY\x01\x00", "a NumPy array (.npy)"),
        (b"\x89PNG\r\n\x1a\n\x00", "a PNG picture"),
        ("HloModule m".encode("utf-16"), "UTF-16 text"),
        (bytes(range(32)) * 4, "a binary file"),
        (b"HloModule m\x00\n", TEXT),  # the parser knows where the stray byte is
    ],
)
def test_kinds(data: bytes, kind: str) -> None:
    assert kind_of(data) == kind


def test_other_files_are_named() -> None:
    with pytest.raises(HloError, match=r"x\.hlo is no HLO: it looks like an ELF object"):
        read_snapshot(b"\x7fELF\x02\x01\x01\x00", "x.hlo")


@needs_protobuf
def test_without_protobuf_the_message_says_what_to_install(monkeypatch: Any) -> None:
    data = module_to_bytes(hloc.parse(SAMPLES["plain"]))
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("google"):
            raise ImportError(name)
        return original(name, *rest)

    runtime._classes.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(HloError) as caught:
        read_snapshot(data, "f.pb")
    assert "pip install 'hloc[proto]'" in str(caught.value)


def test_without_jaxlib_the_message_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setattr(jaxlib_converter, "find_spec", lambda _name: None)
    with pytest.raises(HloError) as caught:
        read_snapshot(b"ML\xefR\x0d", "m.mlirbc")
    assert "m.mlirbc is StableHLO bytecode" in str(caught.value)
    assert "pip install 'hloc[jax]'" in str(caught.value)


MLIR = """module @jit_f {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


@pytest.mark.jax
@needs_jaxlib
def test_stablehlo_of_jaxlib_and_ours_agree() -> None:
    module = read_snapshot(MLIR.encode(), "m.mlir").module
    assert module.entry.root.is_a("add")
    text = jaxlib_converter.from_hlo(module.to_text(), "m")
    assert kind_of(text) == STABLEHLO
    assert read_snapshot(text, "m.mlir").module.entry.root.is_a("add")
    ours = module_bytes(module, "stablehlo")
    assert hloc.parse(jaxlib_converter.to_hlo(ours, STABLEHLO, "m")).entry.root.is_a("add")


@pytest.mark.jax
@needs_jaxlib
def test_bytecode_that_is_wrong_gives_the_reason_of_jaxlib() -> None:
    with pytest.raises(HloError, match="jaxlib cannot convert this module"):
        read_snapshot(b"ML\xefR\x0dfoo", "m.mlirbc")
