"""Literals and signatures: hloc takes what XLA takes and refuses what XLA refuses.

The verdicts were measured; `test_xla_says_the_same` measures them again where JAX is installed, in
a child process for each text, because XLA aborts on some.
"""

import os

import pytest

from hloc.errors import HloError
from hloc.parser import parse
from hloc.source import SourceFile

ACCEPTED_LITERALS = {
    "s32[2]": (
        "{1 2}", "{1,2,}", "{,1,,2,}", "{1-2}", "{1/**/2}", "{1//x\n2}", "{1/*{*/,2}", "{1\t2}",
        "5",
        "{00000000000000000000000000005 1}",
    ),
    "s32[3,1]": ("{{1},{2},{3}}", "{,{3},{1},{2}}", "{{1}{2}{3},}"),
    "s32[2,0]": ("{{},{}}", "{{}{}}"),
    "s32[0]": ("{}", "{,}"),
    "s32[0,2]": ("{}",),
    "f32[2]": (
        "{1.-.5}", "{1e5-5}", "{1.5inf}", "{1nan}", "{-inf1}", "{-nan-1}", "{nan(0x1)1}",
        "{1.e5 -.5}",
        "{...}", "{ ...,}", "{... ...}",
    ),
    "pred[2]": ("{true false}", "{1true}", "{2 -1}", "{18446744073709551615,-0}"),
    "c64[2]": ("{(1,2) (3,4)}", "{(-inf,inf)(nan(0x1),-nan)}", "{...}"),
    "c64[1,1]": ("{{(1,2),}}",),
    "(s32[],s32[2])": ("(1,{2,3})", "(1 {2,3})"),
    "((s32[]),s32[])": ("((1),2)", "((1)2)"),
    "()": ("()",),
    "s64[]": ("-9223372036854775808", "18446744073709551615", " /**/5\n"),
    "s32[]": ("00000000000000000000000000005", "-0"),
    "f32[]": ("00000000000000000000000000005", "18446744073709551615"),
}  # fmt: skip
REFUSED_LITERALS = {
    "s32[2]": (
        "{+1,2}", "{1;2}", "{1=2}", "{1:2}", "{1_2 3}", "{1x2 3}", "{0x10,3}", "{1-2_3}", "{1/2}",
        "{1 a 2}", '{1 "a" 2}', "{1 % 2}", "{1 [2]}", "{1 (2)}", "{1?2}", "{1->2}", "{1<=2}",
        "{1 2#}", "{1*2}", "{1+2}", "{1~2}", "{ENTRY 1 2}", "{1 2 ROOT}", "{f32 1 2}", "{1\v2}",
        "{1\f2}", "{1\x1c2}", "{1\u00a02}", "{1\u20282}", "{1 \u0663}", "{1}{2}", "{5 6} 7",
        "{5 6},", "", " ", "{1 1.}", "{1 1e3}", "{1true}",
    ),
    "s32[2,1]": (
        "{{3}hello{0}}", "{{3}hello{0},{16}}", "{{5}6{7}}", "{{5},6}", "{5,6}", "{{5}{}}",
        ",{{1},{2}}", "{{1},{2}},",
    ),
    "s32[0,2]": ("{{}}",),
    "f32[?]": ("0", "1", "{}"),
    "f32[2]": (
        "{.5 1}", "{1.5.2}", "{1..5}", "{1e5.5}", "{-.e5 1}", "{1e+ 5}", "{-e5 1}", "{-. 1}",
        "{- -}",
        "{infinity 1}", "{+inf 1}", "{INF 1}", "{NaN 1}", "{inf-1}", "{nan-1}", "{-infx 1}",
        "{nan (0x1) 1}", "{- 1 2}", "{1_0 1}", "{true 1}", "{. ..}", "{...}...", "{1 1e\uff11}",
    ),
    "f32[2,2]": ("{{...}}",),
    "pred[2]": ("{truefalse}", "{true1}", "{true-1}", "{True 0}", "{1.0 0}", "{inf 1}", "{1_0 0}"),
    "c64[2]": (
        "{(1 2) (3,4)}", "{(1,,2) (3,4)}", "{(1,-2)(1-2)}", "{1 2}", "{(1,2),hello,(3,4)}", "(1,2)",
        "{(1,2)}{(3,4)}", "{((1,2)) (3,4)}", "{(true,1)(1,2)}",
    ),
    "(s32[],s32[2])": (
        "(1,,{2,3})", "(1,{2,3},)", "(,1,{2,3})", "(hello 1,{2,3})", "1,{2,3}", "(1)",
    ),
    "()": ("(,)", ""),
    "s32[]": ("5,", ",5", "{5}", "5 6", "--1", "- 1", "+3", "\u0663", "5s", "99999999999999999999"),
    "f32[]": ("{...}", "1f", "18446744073709551616", "3.5e38", "5//x"),
    "pred[]": ("99999999999999999999",),
    "s64[]": ("-9223372036854775809", "18446744073709551616"),
}  # fmt: skip

ACCEPTED_SIGNATURES = (
    "a: f32[3]", "a:f32[3]", "a f32[3]", "%a f32[3]", "a/**/f32[3]", "a:/*index=5*/f32[3]", "",
    "a: f32[3], b f32[]", "a: f32[<=3]", "a: f32[ ? , 3 ]", "a: (f32[3], (), (s32[]))", "a(f32[3])",
    "a: f32[3,3]{1,0:T(2,3)}", "a: f32[3]{0:T}", "a: b(f32[3])", "b b(f32[3])", "ENTRY: f32[3]",
    "nan: f32[3]", "f32: f32[3]", "%f32 f32[3]", "__a: f32[]", "a: f32[3], a: f32[3]", "a: token[]",
)  # fmt: skip
REFUSED_SIGNATURES = (
    "a: f32[3<=]", "a : f32[3]", "%a: f32[3]", "% a f32[3]", "f32[3]", "a: f32[3],", "a= f32[3]",
    "a b: f32[3]", "a,b: f32[3]", "a\nb: f32[3]", "a: f32[3] b: s32[]", "a: hello",
    "a: f32[3)", "a: f32[]{}", "a: (f32[]{})",
    "a: (f32[3] s32[])",
    "a: (f32[3}, s32[])", "a: f32[3,3]{1}", "a: f32[-1]", "a: f99[3]", "1a: f32[3]", "a: f32[<=]",
    "a: f32[,]", "a: f32[3,]", "a: token[2]", "a: 3", "a: f32[3,3]{1,0", "a:b: f32[3]",
    "s32 f32[3]",
    "nan f32[3]", "maximal f32[3]", "a/**/: f32[3]", "a: f32[9999999999999999999]",
)  # fmt: skip

ACCEPTED_LINES = (
    "a = f32[]{:} parameter(0)", "a = (f32[]{:}) parameter(0)", "a = f32[3]{0:T} parameter(0)",
    "a = f32[3] parameter(00)", "a = f32[3] parameter(-0)", "a = f32[3] parameter(/**/0 )",
    "a = f32[03]{00} parameter(0)",
)  # fmt: skip
REFUSED_LINES = (
    "a = f32[]{} parameter(0)", "a = (f32[]{}) parameter(0)", "a = f32[0]{} parameter(0)",
    "a = f32[3<=] parameter(0)", "a = f32[3]{,0} parameter(0)", "a = f32[3]{0,} parameter(0)",
    "a = f32[,3]{0} parameter(0)", "a = f32[3] parameter(0,)", "a = f32[3] parameter(+0)",
    "a = f32[3] parameter({0})", "a = f32[3] parameter(0}", "a = f32[3] parameter(\u0660)",
    "a = f32[\u0663] parameter(0)", "a = f32[3]{0:S(\u0661)} parameter(0)",
    "a = f32[3] parameter(0), sharding={replicated]",
    'a = f32[3] parameter(0), metadata={op_name="a" [}',
    'a = f32[3] parameter(0), frontend_attributes={a="1"(}',
)  # fmt: skip

_LITERAL = "HloModule m\n\nENTRY e {{\n  ROOT c = {} constant({})\n}}\n"
_LINE = "HloModule m\n\nENTRY e {{\n  {}\n}}\n"
_SIGNATURE = "HloModule m\n\nENTRY e ({}) -> f32[3] {{\n  a = f32[3] parameter(0)\n}}\n"


def _texts(
    literals: dict[str, tuple[str, ...]], signatures: tuple[str, ...], lines: tuple[str, ...]
) -> list[str]:
    return [
        *(_LITERAL.format(shape, text) for shape, texts in literals.items() for text in texts),
        *(_SIGNATURE.format(text) for text in signatures),
        *(_LINE.format(text) for text in lines),
    ]


ACCEPTED = _texts(ACCEPTED_LITERALS, ACCEPTED_SIGNATURES, ACCEPTED_LINES)
REFUSED = _texts(REFUSED_LITERALS, REFUSED_SIGNATURES, REFUSED_LINES)


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_xla_takes_is_taken(text: str) -> None:
    parse(SourceFile(text), verify=False)


@pytest.mark.parametrize("text", REFUSED)
def test_what_xla_refuses_is_refused(text: str) -> None:
    with pytest.raises(HloError):
        parse(SourceFile(text), verify=False)


@pytest.mark.jax
@pytest.mark.parametrize("text", ACCEPTED + REFUSED)
def test_xla_says_the_same(text: str) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    child = os.fork()
    if child == 0:
        try:
            hlo.hlo_module_from_text(text)
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert (status == 0) == (text in ACCEPTED)
