"""Judge every text of XLA's source tree as XLA's own tests judge it: `make xla-texts`.

The checkout is read and never copied. From `hlo_parser_test.cc` come the tables of modules that
print as they are written, those that print otherwise, and the modules of single tests, which are
accepted or refused by what the test expects of the result. `.hlo` files are read by XLA's tools, so
each piece of one is accepted.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.ir.printer import STYLES, PrintOptions, _Printer
from hloc.parser import parse
from hloc.source import SourceFile

PARSER_TEST = "xla/hlo/parser/hlo_parser_test.cc"
KNOWN = Path(__file__).parents[1] / "docs" / "text-versions.md"
_LITERAL = re.compile(r'R"(\w*)\((.*?)\)\1"|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "'": "'"}
_COMMENT_LINE = re.compile(r"^\s*//.*$", re.MULTILINE)
_FAILS = re.compile(
    r"EXPECT_NE\(absl::OkStatus|ASSERT_NE\(absl::OkStatus|EXPECT_FALSE\(\w+(?:\(\))?\.ok\(\)\)"
    r"|ASSERT_FALSE\(\w+\.ok\(\)\)|ASSERT_TRUE\(!\w+\.status\(\)\.ok\(\)\)|StatusIs\(|Not\((?:absl_testing::)?IsOk"
    r"|\.status\(\)\.message\(\)"
)
_READS = re.compile(
    r"\b(?:ParseAndReturn(?:Unv|V)erifiedModule|ParseHloString\w*|CreateModuleFromString)\("
)
_BUILT = re.compile(r"StrCat\(|StrFormat\(|std::to_string|Substitute\(")


@dataclass(frozen=True)
class Text:
    """One text of the checkout and what XLA's tests expect of it.

    Attributes:
        printed: what XLA prints of it in `style`, None where no test says it.
        verified: XLA's verifier must take it as well.
    """

    name: str
    text: str
    accepted: bool
    verified: bool = False
    style: str = ""
    printed: str | None = None


# ---------------------------------------------------------------- texts of a checkout


def strings_of(code: str) -> list[str]:
    """Return the string literals of C++ code; neighbours are joined, as the compiler does."""
    found: list[str] = []
    end = -1
    for literal in _LITERAL.finditer(code):
        raw, plain = literal.group(2), literal.group(3)
        value = raw if raw is not None else _unescaped(plain)
        if end >= 0 and not code[end : literal.start()].strip():
            found[-1] += value
        else:
            found.append(value)
        end = literal.end()
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group()), text)


def tables(code: str) -> Iterator[Text]:
    """Yield the modules of the three tables of the parser's tests."""
    for function, style in (("CreateTestCases", "long"), ("CreateShortTestCases", "short")):
        strings = strings_of(_function(code, function))
        for name, text in zip(strings[::2], strings[1::2], strict=True):
            yield Text(f"{PARSER_TEST}:{name}", text, True, True, style, text)
    strings = strings_of(_function(code, "CreateNonRoundtripTestCases"))
    for name, text, printed in zip(strings[::3], strings[1::3], strings[2::3], strict=True):
        yield Text(f"{PARSER_TEST}:{name}", text, True, True, "short", printed)


def _function(code: str, name: str) -> str:
    start = code.index(f" {name}() {{")
    body = code[start : code.index("// clang-format on", start)]
    return re.sub(r"^//.*$", "", body, flags=re.MULTILINE)


def single_tests(code: str) -> Iterator[Text]:
    """Yield the modules of tests that stand alone; those with several have a number.

    Tests whose texts C++ code puts together are left out.
    """
    for piece in re.split(r"^(?=TEST(?:_F)?\()", code, flags=re.MULTILINE)[1:]:
        head = re.match(r"TEST(?:_F)?\(\s*\w+,\s*(\w+)\)", piece)
        body = piece
        if head is None or not _READS.search(body) or _BUILT.search(body):
            continue
        texts = [text for text in strings_of(body) if _is_module(text)]
        name = f"{PARSER_TEST}:{head.group(1)}"
        accepted = not _FAILS.search(body)
        verified = "ParseAndReturnVerifiedModule(" in body
        for number, text in enumerate(texts):
            shown = f"{name}#{number}" if len(texts) > 1 else name
            yield Text(shown, text, accepted, verified)


def _is_module(text: str) -> bool:
    return bool(re.search(r"HloModule|ENTRY|^\s*%?[\w.\-]+ \(.*\{|\w = \S+ ?\w*\(", text))


def files(checkout: Path) -> Iterator[Text]:
    """Yield every piece of every `.hlo` file, but of messages, which have `#` comments."""
    for path in sorted(checkout.rglob("*.hlo")):
        whole = path.read_text(errors="surrogateescape")
        if re.search(r"^#", whole, flags=re.MULTILINE):
            continue
        pieces = re.split(r"^// -----$", whole, flags=re.MULTILINE)
        name = str(path.relative_to(checkout))
        for number, text in enumerate(pieces):
            if _COMMENT_LINE.sub("", text).strip():
                yield Text(f"{name}#{number}" if len(pieces) > 1 else name, text, True)


def all_texts(checkout: Path) -> Iterator[Text]:
    code = (checkout / PARSER_TEST).read_text()
    yield from tables(code)
    yield from single_tests(code)
    yield from files(checkout)


# ---------------------------------------------------------------- judging


def judge(text: Text) -> str:
    """Return in which way hloc differs from what XLA's tests expect of `text`, "" if in none."""
    try:
        # What XLA's parser refuses, hloc's parser or its verifier may refuse.
        module = parse(SourceFile(text.text), verify=text.verified or not text.accepted)
    except HloError as error:
        return f"refused: {error.diagnostics[0].message}" if text.accepted else ""
    if not text.accepted:
        return "accepted"
    if text.printed is not None:
        return _print_difference(printed(module, text.style), text.printed)
    return ""


def printed(module: Module, style: str) -> str:
    """Return what XLA's test prints: `short`, or `long` with shapes of operands."""
    if style == "short":
        return _Printer(STYLES["short"], module).module()
    options = replace(PrintOptions(), operand_shape=True, large_constants=True)
    return _Printer(options, module).module()


def _print_difference(found: str, expected: str) -> str:
    if found.strip() == expected.strip():
        return ""
    for ours, theirs in zip(found.split("\n"), expected.split("\n"), strict=False):
        if ours != theirs:
            return f"prints: {ours.strip()}\n    instead of: {theirs.strip()}"
    return "prints another number of lines"


def known_differences() -> dict[str, str]:
    """Return the rows of the table of differences in docs/text-versions.md, cause by name."""
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \|$", KNOWN.read_text(), flags=re.MULTILINE)
    return dict(rows)


def report(texts: Iterable[Text], known: dict[str, str]) -> int:
    """Print a line per text that differs, and counts; return the number of unknown differences."""
    count: Counter[str] = Counter()
    for text in texts:
        kind = "accepted" if text.accepted else "refused"
        count[kind] += 1
        difference = judge(text)
        name = text.name.rpartition("/")[2]
        if difference and name in known:
            count["known to differ"] += 1
        elif difference:
            count["not known to differ"] += 1
            print(f"{name}: {difference}", flush=True)
        elif name in known:
            print(f"{name}: no longer differs, but docs/{KNOWN.name} says so")
            count["not known to differ"] += 1
    print(", ".join(f"{number} {kind}" for kind, number in sorted(count.items())))
    return count["not known to differ"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of openxla/xla or ROCm/xla")
    parser.add_argument("names", nargs="*", help="only texts whose name contains one of these")
    arguments = parser.parse_args()
    found = all_texts(arguments.checkout)
    wanted = [t for t in found if not arguments.names or any(n in t.name for n in arguments.names)]
    return 1 if report(wanted, known_differences()) else 0


if __name__ == "__main__":
    sys.exit(main())
