"""Who may ask the server of `hloc web`: attacks that get no further than its guard."""

import pytest

from hloc.web.guard import Guard, Message, Receive, Scope, Send
from tests.unit.web.asking import HOST, TOKEN, Answer, post, request

MOST_BYTES = 4 << 20


async def _told(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path and the length of the body."""
    message: Message = await receive()
    text = f"{scope['path']} {len(message['body'])}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text})


APP = Guard(_told, TOKEN, 8000, MOST_BYTES)


def refused(answer: Answer, status: int, words: str) -> bool:
    return answer.status == status and words in answer.words


def test_the_page_of_the_address_is_answered_without_the_token_in_the_path() -> None:
    assert request(APP, f"/{TOKEN}/api/start").body == b"/api/start 0"
    assert request(APP, f"/{TOKEN}/").body == b"/ 0"


def test_a_body_arrives_whole() -> None:
    answer = post(APP, f"/{TOKEN}/api/ask", "x" * (3 << 20))
    assert answer.body == f"/api/ask {(3 << 20) + 2}".encode()


@pytest.mark.parametrize(
    "path", ["/", "/api/start", "/wrong/api/start", f"/{TOKEN}x/", "//", "/é/"]
)
def test_without_the_token_nothing_is_answered(path: str) -> None:
    assert refused(request(APP, path), 403, "the address lacks the token")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", ""]
)
def test_a_name_that_points_to_this_machine_is_refused(host: str) -> None:
    answer = request(APP, f"/{TOKEN}/", headers={"host": host})
    assert refused(answer, 403, "127.0.0.1 and localhost only")


@pytest.mark.parametrize("host", ["localhost:8000", "[::1]:8000"])
def test_names_of_the_loopback_are_answered(host: str) -> None:
    assert request(APP, f"/{TOKEN}/", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8001"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_a_page_of_another_server_cannot_post(headers: dict[str, str]) -> None:
    assert refused(post(APP, f"/{TOKEN}/api/ask", {}, **headers), 403, "another server")


def test_a_form_of_another_page_cannot_post() -> None:
    answer = post(APP, f"/{TOKEN}/api/ask", {}, content_type="text/plain")
    assert refused(answer, 415, "application/json")


def test_a_huge_body_is_refused_by_its_length_and_by_its_bytes() -> None:
    said = post(APP, f"/{TOKEN}/api/ask", {}, content_length=str(1 << 40))
    assert refused(said, 413, "more than 4 MiB")
    sent = request(
        APP, f"/{TOKEN}/api/ask", method="POST", body=b"x" * (MOST_BYTES + 1),
        headers={"content-type": "application/json"},
    )  # fmt: skip
    assert refused(sent, 413, "more than 4 MiB")
    assert refused(post(APP, f"/{TOKEN}/", {}, content_length="-1"), 413, "more than")


def test_other_methods_are_refused() -> None:
    assert refused(request(APP, f"/{TOKEN}/", method="DELETE"), 405, "only GET and POST")


def test_answers_keep_other_pages_out() -> None:
    headers = request(APP, f"/{TOKEN}/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert request(APP, "/", headers={"host": HOST}).headers["cache-control"] == "no-store"
