"""Tests of hloc as a backend of JAX; they need jax, and are skipped without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    for item in items:
        if "/tests/jax/" in item.path.as_posix():
            item.add_marker(pytest.mark.jax)


@pytest.fixture(autouse=True)
def _on_hloc() -> Iterator[None]:
    import jax

    with jax.default_device(jax.devices("hloc")[0]):
        yield
