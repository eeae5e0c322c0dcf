"""Literals: values to the bit, counts and ranges checked, text as XLA prints it."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hloc.dtypes import DTYPES, DType
from hloc.errors import HloError
from hloc.ir.literal_text import literal_text
from hloc.literal import Literal, WrittenScalar, literal_of
from hloc.parser.literals import parse_literal
from hloc.shapes import ArrayShape, array_shape
from hloc.source import SourceFile

FLOATS = [d for d in DTYPES.values() if d.is_float]


def read(text: str, shape: ArrayShape) -> Literal:
    """Return the literal that `text` spells."""
    return parse_literal(SourceFile(text), text, 0, shape)


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.storage_bytes == 1], ids=str)
def test_every_small_float_reads_back_to_the_bit(dtype: DType) -> None:
    bits = np.arange(2**dtype.bits, dtype=np.uint8)
    # f8e8m0fnu prints 2^-127 with two digits, which are those of 2^-126 as well; NaN has one form
    # in the types that print no payload, and f4/f6 have none.
    values = bits.view(dtype.numpy)
    keep = ~np.isnan(values.astype(np.float32))
    if dtype.name == "f8e8m0fnu":
        keep[0] = False
    values = values[keep]
    literal = literal_of(values, dtype)
    again = read(literal_text(literal), literal.shape)  # type: ignore[arg-type]
    assert again.array.view(np.uint8).tolist() == values.view(np.uint8).tolist()


@given(hnp.arrays(np.uint32, hnp.array_shapes(max_dims=5, max_side=4)))
def test_any_f32_array_reads_back_to_the_bit(bits: np.ndarray) -> None:
    literal = literal_of(bits.view(np.float32))
    again = read(literal_text(literal), literal.shape)  # type: ignore[arg-type]
    assert again.array.tobytes() == literal.array.tobytes()


@given(st.lists(st.floats(width=64, allow_nan=False), min_size=1), st.booleans())
def test_plain_and_careful_reading_agree(values: list[float], with_comment: bool) -> None:
    shape = array_shape("f64", len(values))
    plain = "{" + ", ".join(f"{value!r}" for value in values) + "}"
    odd = plain.replace(",", ",/*i*/,") if with_comment else plain.replace(",", " ")
    assert read(plain, shape).array.tobytes() == read(odd, shape).array.tobytes()


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("-0", "f32", -0.0),
        ("-0", "s32", 0),
        ("-0.0", "f32", -0.0),
        ("65519", "f16", 65504.0),
        ("7", "f4e2m1fn", 6.0),
        ("1e-60", "f32", 0.0),
        ("18446744073709551615", "f32", -1.0),
        ("-.5", "f64", -0.5),
        ("1.", "bf16", 1.0),
    ],
)
def test_value_of_a_scalar(text: str, dtype: str, value: float) -> None:
    found = read(text, array_shape(dtype)).array.astype(np.float64)
    assert found.tobytes() == np.float64(value).tobytes()


@given(
    st.sampled_from([d for d in DTYPES.values() if not d.is_special and not d.is_complex]),
    st.one_of(
        st.from_regex(r"-?[0-9]{1,21}", fullmatch=True),
        st.from_regex(r"-?[0-9]{0,9}\.[0-9]{0,9}(e[-+]?[0-9]{1,3})?", fullmatch=True),
        st.floats(width=32).map(lambda value: f"{value:.6g}"),
        st.floats().map(lambda value: f"{value:.15g}"),
        st.sampled_from(["true", "false", "nan", "-nan", "nan(0x1)", "inf", "-inf", "-0", "-0.0"]),
    ),
)
@example(DTYPES["f32"], ".")
@example(DTYPES["f32"], "1.2.3")
@example(DTYPES["bf16"], "nan(0x1)")
def test_a_scalar_is_the_same_with_and_without_numpy(dtype: DType, text: str) -> None:
    """The text of a plain scalar is kept; it has the value, hash and text of the careful way."""
    shape, source = array_shape(dtype.name), SourceFile(text)
    try:
        careful = parse_literal(source, text, 0, shape, fast=False)
    except HloError:
        with pytest.raises(HloError):
            read(text, shape)
        return
    found = read(text, shape)
    assert (found, hash(found)) == (careful, hash(careful))
    assert literal_text(found) == literal_text(careful)
    assert found.array.tobytes() == careful.array.tobytes()
    assert found.array.dtype == careful.array.dtype
    assert found.array.shape == ()
    assert not found.array.flags.writeable


PARTS = ["1", "-2.5", "1e-60", "1e39", "nan", "-nan", "nan(0x1)", "inf", "true", ".", "0x1", ""]


@given(
    st.sampled_from(["c64", "c128"]),
    st.lists(st.tuples(*[st.sampled_from(PARTS)] * 2), max_size=4),
    st.sampled_from(["({},{})", "( {} , {} )", "({} {})", "({},{},)", "{},{}"]),
    st.sampled_from([",", " ", ", ", "},{", ""]),
)
@example("c64", [("1", "2"), ("nan", "3")], "({},{})", ",")
@example("c64", [("1", "2"), ("nan(0x1)", "3")], "({}, {})", "},{")
def test_complex_elements_are_the_same_with_and_without_numpy(
    dtype: str, pairs: list[tuple[str, str]], form: str, separator: str
) -> None:
    rows = separator.join(form.format(*pair) for pair in pairs)
    is_matrix = separator == "},{"
    text = "{{" + rows + "}}" if is_matrix else "{" + rows + "}"
    shape = array_shape(dtype, len(pairs), 1) if is_matrix else array_shape(dtype, len(pairs))
    found: list[bytes | str] = []
    for fast in (True, False):
        try:
            read = parse_literal(SourceFile(text), text, 0, shape, fast)
            found.append(read.array.tobytes())
        except HloError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("0", "f32"), ("-inf", "f64"), ("0.125", "f32"), ("-7", "s8"), ("true", "pred")],
)
def test_plain_scalars_keep_their_text(text: str, dtype: str) -> None:
    assert isinstance(read(text, array_shape(dtype)), WrittenScalar)


def test_integers_of_64_bits_do_not_mind_the_sign() -> None:
    assert read("-1", array_shape("u64")).array == np.uint64(2**64 - 1)
    assert read("18446744073709551615", array_shape("s64")).array == -1


def test_one_value_without_braces_sets_the_first_element() -> None:
    assert read("5", array_shape("s32", 2, 2)).array.tolist() == [[5, 0], [0, 0]]
    zeros = read("0", array_shape("f32", 4096, 4096)).array
    assert zeros.shape == (4096, 4096)
    assert zeros.base is not None
    assert zeros.base.size == 1


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("{1,2}", array_shape("f32", 3), "expects 3 elements in the \\[\\]th element, but sees 2"),
        ("{{1,2},{3}}", array_shape("f32", 2, 2), "in the \\[1\\]th element, but sees 1"),
        ("{1,2}", array_shape("f32", 2, 1), "nested braces"),
        ("{{1}}", array_shape("f32", 1), "levels of braces"),
        ("1e400", array_shape("f64"), "beyond the range"),
        ("65520", array_shape("f16"), "out of range"),
        ("500", array_shape("f8e4m3fn"), "out of range"),
        ("1_000", array_shape("s32"), "expected|unexpected"),
        ("true", array_shape("s32"), "expected an integer"),
        ("nan(0x0)", array_shape("f32"), "payload"),
        ("nan(0x800000)", array_shape("f32"), "payload"),
        ("1 2", array_shape("f32"), "after the literal"),
        ("{{...}}", array_shape("f32", 1, 1), "outermost"),
        ("1", array_shape("c64"), "expected '\\('"),
        ("1", array_shape("token"), "not possible"),
        ("0", array_shape("f32", *[1] * 65), "at most 64 dimensions"),
    ],
)
def test_what_is_refused(text: str, shape: ArrayShape, expected: str) -> None:
    with pytest.raises(HloError, match=expected):
        read(text, shape)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.float32(16777217.5), "16777218"),
        (np.float64(1) / 3, "0.33333333333333331"),
        (np.float32(-0.0), "-0.0"),
        (np.float16(0.1), "0.099976"),
        (ml_dtypes.bfloat16(0.1), "0.1001"),
        (np.float32(1e38), "1e+38"),
        (np.array(np.uint32(0xFFC00001)).view(np.float32), "-nan(0x400001)"),
        (np.complex64(1 - 2j), "(1, -2)"),
        (np.bool_(True), "true"),
    ],
)
def test_text_of_a_scalar(value: object, text: str) -> None:
    assert literal_text(literal_of(np.asarray(value))) == text


@pytest.mark.parametrize("size", [1, 2, 64, 65, 1000])
def test_the_one_value_of_all_elements(size: int) -> None:
    """Bit for bit, whether the first or the last element differs."""
    values = np.full(size, 2.5, np.float32)
    assert literal_of(values.copy(), DTYPES["f32"]).uniform == 2.5
    for place in {1, size - 1} - {0, size}:
        other = values.copy()
        other[place] = 1
        assert literal_of(other, DTYPES["f32"]).uniform is None
    zeros = np.zeros(size, np.float32)
    zeros[-1] = -0.0
    assert (literal_of(zeros, DTYPES["f32"]).uniform is None) == (size > 1)
