"""By which names a class answers that listens on a network."""

import pytest

pytest.importorskip("resource", reason="limits of Unix")
pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")

from hloc.web.classroom.server import _Guarded
from hloc.web.guard import LOOPBACK, Receive, Scope, Send
from tests.unit.web.asking import request


async def _answered(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


GUARDED = _Guarded(_answered, "desk", 8000, ("box", "box.local", *LOOPBACK))


def status(address: str, host: str) -> int:
    """Return the answer to who has reached the machine at `address` and calls it `host`."""

    async def reached(scope: Scope, receive: Receive, send: Send) -> None:
        await GUARDED({**scope, "server": (address, 8000)}, receive, send)

    return request(reached, "/desk/", headers={"host": host}).status


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.7", "10.0.0.7:8000"), ("10.0.0.7", "box:8000"), ("10.0.0.7", "box.local:8000"),
        ("fd00::7", "[fd00::7]:8000"), ("127.0.0.1", "localhost:8000"),
    ],
)  # fmt: skip
def test_a_class_answers_to_its_address_and_its_name(address: str, host: str) -> None:
    assert status(address, host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "10.0.0.8:8000", "10.0.0.7", "10.0.0.7:80", ""]
)
def test_it_answers_to_no_other(host: str) -> None:
    assert status("10.0.0.7", host) == 403
