"""The command line is read as users of compilers write it; mistakes are answered with a hint."""

import shlex
from contextlib import suppress

import pytest

from hloc.cli.arguments import parse_arguments
from hloc.cli.command_words import command_and_words
from hloc.cli.commands import COMMANDS, COMPILE_COMMAND
from hloc.cli.help import help_text
from hloc.cli.option_values import EMIT_KINDS
from hloc.cli.options import OPTIONS, options_of
from hloc.report.exits import UsageError


def test_options_and_files_may_be_mixed() -> None:
    found = parse_arguments("", ["a.hlo", "-O3", "--run", "b.hlo", "-o", "x", "c.hlo"])
    assert found.files == ["a.hlo", "b.hlo", "c.hlo"]
    assert (found.opt_level, found.run, found.output_file) == ("3", True, "x")


def test_an_option_with_an_implied_value_never_eats_the_file() -> None:
    found = parse_arguments("", ["--run", "--random", "a.hlo", "--print-changed", "b.hlo"])
    assert found.files == ["a.hlo", "b.hlo"]
    assert (found.random, found.print_changed) == (0, "diff")
    assert parse_arguments("", ["--random=7"]).random == 7
    assert parse_arguments("", ["-O", "a.hlo"]).opt_level == "2"


def test_all_words_behind_two_dashes_are_files() -> None:
    assert parse_arguments("", ["--", "-x.hlo"]).files == ["-x.hlo"]
    found = parse_arguments("", ["a.hlo", "--", "-x.hlo", "--run", "--random"])
    assert (found.files, found.run) == (["a.hlo", "-x.hlo", "--run", "--random"], False)
    with pytest.raises(UsageError, match="unknown option -x"):
        parse_arguments("", ["-x.hlo", "--", "-x.hlo"])


def test_lists_are_joined_and_checked() -> None:
    found = parse_arguments("", ["--disable-pass=cse,dce", "--disable-pass=fusion", "-"])
    assert found.disable_pass == ("cse", "dce", "fusion")
    assert found.files == ["-"]
    assert parse_arguments("", ["--emit=asm,hlo,asm"]).emit == ("asm", "hlo")


def test_defaults_stand_for_options_that_were_not_given() -> None:
    found = parse_arguments("run", ["a.hlo"])
    assert (found.opt_level, found.random, found.inputs, found.quiet) == ("2", None, None, False)
    assert (found.disable_rule, found.fill_constants, found.color) == ((), "error", "auto")


def test_flags_of_xla_are_ignored_but_remembered() -> None:
    found = parse_arguments("", ["--xla_dump_to=x", "a.hlo"])
    assert found.ignored == ("--xla_dump_to=x",)


WRONG = {
    "--pases=cse": "unknown option --pases; did you mean --passes?",
    "-O9": "-O: expected one of 0, 1, 2, 3, found '9'",
    "--emit=llvmir": "--emit: expected one of .*found 'llvmir'; did you mean llvm-ir?",
    "--random=-1": "--random: expected a whole number, 0 or more, found '-1'",
    "--repeat=0": "--repeat: expected a whole number, 1 or more, found '0'",
    f"--repeat={'9' * 5000}": "--repeat: expected at most 18 digits, found 5000",
    f"--rtol=-{'9' * 5000}": "--rtol: expected a number that is not negative, found '-9{59}...'$",
    "--rtol=nan": "--rtol: expected a number that is not negative, found 'nan'",
    "--passes": "expected one argument",
    "--no-verify": "unknown option --no-verify; it belongs to `hloc parse`",
    "--passes=": "--passes: expected names of passes, found nothing",
    "-1": "unknown option -1$",
    "--frobnicate": "unknown option --frobnicate$",
}


@pytest.mark.parametrize("word", WRONG)
def test_mistakes_are_explained(word: str) -> None:
    with pytest.raises(UsageError, match=WRONG[word].replace("?", r"\?")):
        parse_arguments("", ["a.hlo", word])


ODD = ["", "9" * 400, "1e400", "--", "\0\udcff", "²", ",,"]


@pytest.mark.parametrize("text", ODD)
def test_odd_values_are_refused_or_taken(text: str) -> None:
    """Whatever stands behind an option, nobody sees a traceback of the converters."""
    for option in OPTIONS:
        flag = max(option.flags, key=len)
        word = f"{flag}={text}" if flag.startswith("--") else flag + text
        if option.metavar:
            with suppress(UsageError):
                parse_arguments(option.commands[0], ["a.hlo", word])


def test_rows_are_consistent() -> None:
    """Every option belongs to known commands; no flag or attribute is used twice in a command."""
    known = {"", *COMMANDS}
    for option in OPTIONS:
        assert set(option.commands) <= known, option.flags
        assert option.implied is None or option.metavar
    for command in known:
        flags = [flag for option in options_of(command) for flag in option.flags]
        assert len(flags) == len(set(flags))
        dests = [option.dest for option in options_of(command)]
        assert len(dests) == len(set(dests))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_names_every_option(command: str) -> None:
    text = help_text(command)
    for option in options_of(command):
        for flag in option.flags:
            assert flag in text, flag
    assert all(kind in help_text("") for kind in EMIT_KINDS)
    assert max(map(len, text.splitlines())) <= 100


def test_help_of_the_program_names_every_command_and_exit_code() -> None:
    text = help_text("")
    assert all(f"hloc {name}" in text for name in COMMANDS)
    assert all(f"\n  {code} " in text for code in (0, 1, 2, 3, 4, 70, 130))


EXAMPLES = {
    example: name
    for name, row in {"": COMPILE_COMMAND, **COMMANDS}.items()
    for example in row.examples
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_help_can_be_read(example: str) -> None:
    words = shlex.split(example.partition(" > ")[0])
    command, rest = command_and_words(words)
    assert command == EXAMPLES[example]
    if command != "repl":
        assert not parse_arguments(command, rest).ignored


def test_every_help_has_an_example() -> None:
    for name in ("", *COMMANDS):
        assert "\nfor example\n  hloc " in help_text(name), name


def test_help_on_other_words_points_to_explain() -> None:
    for word, hint in {
        "biscet": "no command named 'biscet'; did you mean bisect?",
        "tanh": "no command named 'tanh'; `hloc explain tanh` tells what it is",
        "nosuch": "no command named 'nosuch'",
    }.items():
        with pytest.raises(UsageError) as caught:
            command_and_words(["help", word])
        assert str(caught.value) == hint
