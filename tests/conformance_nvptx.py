"""Adapter of the conformance run for GPU code: compiled for nvptx64, run in the PTX interpreter."""

from collections.abc import Callable
from typing import Any

import hloc
from hloc.ir.module import Module

NAME = "hloc-nvptx64"


class Adapter:
    """What the scoring tool asks for."""

    def parse(self, text: str) -> Module:
        return hloc.parse(text, verify=False)

    def print(self, module: Module) -> str:
        return module.to_text(style="default", large_constants=True)

    def compile(self, module: Module, opt_level: int = 2) -> Callable[..., list[Any]]:
        executable = hloc.compile(
            module,
            opt_level=opt_level,
            fill_constants="zeros",
            target="nvptx64",
            simulate=True,
        )
        return lambda *arrays: list(executable(*arrays))
