"""Completion of `hloc` in bash 3.2 and later."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.cli.commands import COMMANDS
from hloc.cli.completion.words import Values, commands, options, positional, values_of
from hloc.cli.options import Option

_HEAD = """\
# Completion of hloc for bash. Use it in this shell:  source <(hloc completion bash)
# or in all shells:  hloc completion bash > ~/.local/share/bash-completion/completions/hloc

# Complete $2 with words, one per line in $1. $3 is put in front of each.
_hloc_words() {
    local IFS=$'\\n'
    COMPREPLY+=($(compgen -P "$3" -W "$1" -- "$2"))
}

_hloc_files() {
    local IFS=$'\\n'
    COMPREPLY+=($(compgen -P "$2" -f -- "$1"))
    compopt -o filenames 2>/dev/null
}

# Complete the last part of the list $2.
_hloc_list() {
    local first=""
    [[ $2 == *,* ]] && first="${2%,*},"
    _hloc_words "$1" "${2##*,}" "$3$first"
}

_hloc() {
    local line="${COMP_LINE:0:COMP_POINT}" command="" word front="" value
    local current="${line##*[[:space:]]}" words=()
    read -ra words <<< "${line%"$current"}"
    for word in "${words[@]:1}"; do
        case "$word" in
"""

_TAIL = """\
}

complete -F _hloc hloc
"""


def script() -> str:
    """Return the script."""
    return "".join((_HEAD, *_body(), _TAIL))


def _body() -> Iterator[str]:
    """Yield the function's body: find the command, then complete a value, a flag or an argument."""
    names = "|".join((*COMMANDS, "help"))
    yield f"        {names}) command=$word; break ;;\n        esac\n    done\n    COMPREPLY=()\n"
    yield "    value=${current#*=}\n"
    yield "    # bash replaces only what follows the last of COMP_WORDBREAKS\n"
    yield '    [[ $COMP_WORDBREAKS == *=* ]] || front="${current%%=*}="\n'
    yield '    case "$command $current" in\n'
    yield from _value_cases()
    yield "    esac\n"
    yield '    case "$command $current" in\n'
    for command in commands():
        flags = [flag for option in options(command) for flag in _flags(option)]
        if flags:
            yield f'    "{command} -"*) _hloc_words {_quoted(flags)} "$current" ;;\n'
    for command in commands():
        if command:
            yield f'    "{command} "*) {_call(positional(command), "$current", "")} ;;\n'
    yield f'    *) _hloc_words {_quoted((*COMMANDS, "help"))} "$current"; '
    yield '_hloc_files "$current" ;;\n    esac\n'
    yield "    [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null\n    return 0\n"


def _value_cases() -> Iterator[str]:
    """Yield a case for every `--option=`, shared by the commands that complete it the same way."""
    found: dict[str, list[str]] = {}
    for command in commands():
        for option in options(command):
            call = _call(values_of(option), "$value", "$front")
            for flag in option.flags:
                if option.metavar and flag.startswith("--"):
                    found.setdefault(call, []).append(f'"{command} {flag}="*')
    for call, patterns in found.items():
        yield f"    {'|'.join(patterns)}) {call}; return 0 ;;\n"


def _call(values: Values, typed: str, front: str) -> str:
    """Return the command that completes `typed` with `values`."""
    calls = []
    if values.words:
        function = "_hloc_list" if values.is_list else "_hloc_words"
        calls.append(f'{function} {_quoted(values.words)} "{typed}" "{front}"')
    if values.is_file:
        calls.append(f'_hloc_files "{typed}" "{front}"')
    return "; ".join(calls) or ":"


def _flags(option: Option) -> Iterator[str]:
    """Yield the spellings of an option, with `=` where a value must follow."""
    for flag in option.flags:
        needs = bool(option.metavar) and option.implied is None and flag.startswith("--")
        yield flag + "=" * needs


def _quoted(words: list[str] | tuple[str, ...]) -> str:
    return "$'" + "\\n".join(word.replace("'", "\\'") for word in words) + "'"
