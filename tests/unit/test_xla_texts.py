"""The judge of XLA's texts: what it takes from C++ code and files, and what it reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xla_texts import PARSER_TEST, all_texts, judge, known_differences, report, strings_of

CODE = r"""
std::vector<TestData> CreateTestCases() {
  // clang-format off
return std::vector<TestData>({
// a comment with "a string"
{
"Long",
R"(HloModule long, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  ROOT %y = f32[2]{0} negate(f32[2]{0} %x)
}

)"
},
  // clang-format on
}
std::vector<TestData> CreateShortTestCases() {
{
"Short",
R"(HloModule short, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

ENTRY main {
  x = f32[2]{0} parameter(0)
  ROOT y = f32[2]{0} negate(x)
}

)",
/*replica_count=*/4,
},
  // clang-format on
}
std::vector<NonRoundtripTestData> CreateNonRoundtripTestCases() {
{
"Other",
R"(HloModule m
ENTRY main { x = (f32[2], s32[]) parameter(0) ROOT y = f32[2] negate(x#0) })",
R"(HloModule m, entry_computation_layout={((f32[2]{0}, s32[]))->f32[2]{0}}

ENTRY main {
  x = (f32[2]{0}, s32[]) parameter(0)
  x_0 = f32[2]{0} get-tuple-element(x), index=0
  ROOT y = f32[2]{0} negate(x_0)
})"
},
  // clang-format on
}

TEST_F(HloParserTest, Taken) {
  const std::string original =
      "HloModule m\n"
      "ENTRY main { ROOT x = f32[2] parameter(0) }";
  EXPECT_OK(ParseAndReturnVerifiedModule(original).status());
}

TEST_F(HloParserTest, Refused) {
  const std::string original = R"(HloModule m
ENTRY main { ROOT x = f32[2] negate(y) })";
  auto result = ParseAndReturnUnverifiedModule(original);
  EXPECT_FALSE(result.ok());
}

TEST_F(HloParserTest, PutTogether) {
  auto result = ParseAndReturnUnverifiedModule(absl::StrCat("HloModule m", "{"));
}

TEST_F(HloParserTest, Sharding) {
  EXPECT_OK(ParseSharding("{replicated}"));
}
"""
FILE = "// RUN: tool %s\nHloModule a\nENTRY e { ROOT x = f32[] parameter(0) }\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    test = tmp_path / PARSER_TEST
    test.parent.mkdir(parents=True)
    test.write_text(CODE)
    (tmp_path / "one.hlo").write_text(FILE + "\n// -----\n\n// -------- no separator\n" + FILE)
    (tmp_path / "message.hlo").write_text('# RUN: tool %s\nname: "main"\n')
    return tmp_path


def test_literals_of_code_are_joined_as_the_compiler_does() -> None:
    code = 'f("a\\n"\n  "b\\"", R"(c"d)", R"x(e)")x" /* */ "f")'
    assert strings_of(code) == ['a\nb"', 'c"d', 'e)"', "f"]


def test_every_text_is_found_and_judged(checkout: Path) -> None:
    texts = {text.name.rpartition("/")[2]: text for text in all_texts(checkout)}
    prefix = "hlo_parser_test.cc:"
    assert {name: text.accepted for name, text in texts.items()} == {
        prefix + "Long": True, prefix + "Short": True, prefix + "Other": True,
        prefix + "Taken": True, prefix + "Refused": False, "one.hlo#0": True, "one.hlo#1": True,
    }  # fmt: skip
    assert [judge(text) for text in texts.values()] == [""] * 7
    assert report(texts.values(), {}) == 0


@pytest.mark.parametrize(
    ("old", "new", "name", "difference"),
    [
        ("ROOT y = f32[2]{0} negate(x)\n", "ROOT y = f32[2] negate(x)\n", "Short", "prints: ROOT"),
        ("negate(y) })", "abs(f32[2] parameter(0)) })", "Refused", "accepted"),
        ("ROOT x = f32[2] parameter(0) }", "ROOT x = f99[2] parameter(0) }", "Taken", "refused"),
    ],
)
def test_a_planted_difference_is_found(
    checkout: Path, old: str, new: str, name: str, difference: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert CODE.count(old) == 1
    (checkout / PARSER_TEST).write_text(CODE.replace(old, new))
    assert report(all_texts(checkout), {}) == 1
    assert f"hlo_parser_test.cc:{name}: {difference}" in capsys.readouterr().out
    known = {f"hlo_parser_test.cc:{name}": "a cause"}
    assert report(all_texts(checkout), known) == 0


def test_a_known_difference_that_is_gone_is_told(checkout: Path) -> None:
    assert report(all_texts(checkout), {"one.hlo#0": "a cause"}) == 1


def test_known_differences_are_rows_of_the_docs() -> None:
    assert all(":" in name and cause for name, cause in known_differences().items())
    assert "hlo_parser_test.cc:TopK" in known_differences()
