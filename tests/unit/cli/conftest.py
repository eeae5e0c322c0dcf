"""Plug-ins of one test are gone in the next."""

from collections.abc import Iterator

import pytest

from hloc.opt.registry import forget_registered


@pytest.fixture(autouse=True)
def no_plugins() -> Iterator[None]:
    yield
    forget_registered()
