"""Options and fixtures of all tests."""

import os

import pytest

os.environ["HLOC_CACHE_DIR"] = ""  # tests compile everything themselves


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the expected texts of golden files anew; read the diff afterwards",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
