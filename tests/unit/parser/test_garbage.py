"""No search for garbage while a text is read and verified: it takes a third of the time."""

import gc

import pytest

from hloc.errors import HloError
from hloc.ir import verifier
from hloc.ir.module import Module
from hloc.parser import parse
from hloc.source import SourceFile

TEXT = "HloModule m\nENTRY e {\n  ROOT x = f32[2]{0} parameter(0)\n}\n"


def test_garbage_waits_until_the_module_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def watched(module: Module) -> None:
        seen.append(gc.isenabled())

    monkeypatch.setattr(verifier, "verify", watched)
    assert gc.isenabled()
    parse(SourceFile(TEXT))
    assert seen == [False]
    assert gc.isenabled()


def test_garbage_is_searched_again_after_a_fault() -> None:
    with pytest.raises(HloError):
        parse(SourceFile(TEXT.replace("f32[2]", "f32[2,3]")))
    assert gc.isenabled()
