"""Options may stand before the subcommand, and hold for those commands that have them."""

import pytest

from hloc.cli.command_words import command_and_words
from hloc.report.exits import UsageError

_GPU = ["--target=nvptx64", "--simulate"]


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        ("run m.hlo -O2", "run", "m.hlo -O2"),
        ("m.hlo --run", "", "m.hlo --run"),
        ("--run m.hlo", "", "--run m.hlo"),
        ("-q -O1 run m.hlo", "run", "-q -O1 m.hlo"),
        ("--mcpu sm_80 run m.hlo", "run", "--mcpu sm_80 m.hlo"),
        ("--random run m.hlo", "run", "--random m.hlo"),  # its value is implied
        ("-o run m.hlo", "", "-o run m.hlo"),  # a file called run
        ("--zork run m.hlo", "run", "--zork m.hlo"),  # to be refused
        ("-- run", "", "-- run"),
        ("help", "", "--help"),
        ("help run", "run", "--help"),
        ("help repl", "repl", "--help"),
        ("", "", ""),
    ],
)
def test_the_command_is_the_first_word_that_is_no_option(
    words: str, command: str, rest: str
) -> None:
    assert command_and_words(words.split()) == (command, rest.split())


def test_help_on_a_word_that_is_no_command() -> None:
    with pytest.raises(UsageError, match="no command named 'pasre'; did you mean parse"):
        command_and_words(["help", "pasre"])


def test_a_command_takes_no_notice_of_options_of_others_before_it() -> None:
    """So that a program with options can stand for `hloc` where several commands are used."""
    assert command_and_words([*_GPU, "run", "m.hlo"]) == ("run", [*_GPU, "m.hlo"])
    assert command_and_words([*_GPU, "parse", "m.hlo"]) == ("parse", ["m.hlo"])
    assert command_and_words(["parse", *_GPU]) == ("parse", _GPU)
