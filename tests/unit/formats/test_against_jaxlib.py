"""jaxlib and hloc read each other's protocol buffers and print the same text."""

from typing import Any

import pytest

import hloc
from hloc.formats.read import read_snapshot
from hloc.formats.to_proto import module_to_bytes
from tests.unit.formats.samples import SAMPLES, needs_jaxlib, needs_protobuf

pytestmark = [pytest.mark.jax, needs_jaxlib, needs_protobuf]


@pytest.fixture(params=SAMPLES)
def text(request: Any) -> str:
    return SAMPLES[request.param]


def test_jaxlib_reads_what_hloc_writes(text: str) -> None:
    from jaxlib import _hlo

    read = _hlo.HloModule.from_serialized_hlo_module_proto(module_to_bytes(hloc.parse(text)))
    assert read.to_string() == _hlo.hlo_module_from_text(text).to_string()


def test_hloc_reads_what_jaxlib_writes(text: str) -> None:
    from jaxlib import _hlo

    data = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    read = read_snapshot(data, "f").module
    assert read.to_text(large_constants=True) == hloc.parse(text).to_text(large_constants=True)
