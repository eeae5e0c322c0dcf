"""`hloc web` on the command line: what is missing, and what it cannot open."""

import pytest

from hloc.cli import main, web_command

Capture = pytest.CaptureFixture[str]


def test_missing_packages_are_reported_with_what_to_install(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_command, "find_spec", lambda name: None)
    assert main(["web", "m.hlo"]) == 1
    said = capsys.readouterr().err
    assert "hloc web needs starlette and uvicorn" in said
    assert "pip install 'hloc[web]'" in said


def test_one_missing_package_is_named_alone(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_command, "find_spec", lambda name: name != "uvicorn" or None)
    assert main(["web"]) == 1
    assert "hloc web needs uvicorn\n" in capsys.readouterr().err


def test_a_missing_file_is_reported_before_anything_is_served(capsys: Capture) -> None:
    pytest.importorskip("starlette", reason="the extra hloc[web]")
    pytest.importorskip("uvicorn", reason="the extra hloc[web]")
    assert main(["web", "nowhere.hlo", "--no-browser"]) == 1
    assert "cannot read nowhere.hlo" in capsys.readouterr().err


def test_a_port_is_a_number(capsys: Capture) -> None:
    assert main(["web", "--port=high"]) == 2
    assert "expected a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--host=127.0.0.1", "--students=3"])
def test_options_of_a_classroom_need_one(option: str, capsys: Capture) -> None:
    pytest.importorskip("starlette", reason="the extra hloc[web]")
    pytest.importorskip("uvicorn", reason="the extra hloc[web]")
    assert main(["web", option]) == 2
    assert f"{option.partition('=')[0]} needs --classroom" in capsys.readouterr().err


def test_a_classroom_that_cannot_confine_is_not_opened(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette", reason="the extra hloc[web]")
    pytest.importorskip("uvicorn", reason="the extra hloc[web]")
    monkeypatch.setattr("hloc.confinement.support.machine", lambda: "riscv64")
    assert main(["web", "--classroom"]) == 1
    said = capsys.readouterr().err
    assert "processes cannot be confined on" in said
    assert "class link" not in said


def test_a_classroom_listens_on_this_machine_only(capsys: Capture) -> None:
    pytest.importorskip("starlette", reason="the extra hloc[web]")
    pytest.importorskip("uvicorn", reason="the extra hloc[web]")
    assert main(["web", "--classroom", "--host=192.0.2.1"]) == 1
    assert "cannot listen on port 0 of 192.0.2.1" in capsys.readouterr().err
