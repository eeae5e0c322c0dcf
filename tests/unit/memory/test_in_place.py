"""What may be overwritten, and above all what may not."""

import pytest

import hloc
from hloc.analysis.in_place import may_overwrite
from hloc.shapes import leaves


def pairs(text: str) -> set[tuple[int, tuple[int, ...]]]:
    """Return the legal pairs of the entry's root."""
    inst = hloc.parse(text).entry.root
    indices = [index for index, _ in leaves(inst.shape)]
    return {
        (number, index)
        for number in range(len(inst.operands))
        for index in indices
        if may_overwrite(inst, number, index)
    }


def fusion(body: str, shape: str = "f32[8]") -> set[tuple[int, tuple[int, ...]]]:
    return pairs(
        f"""HloModule m
        sum {{
          v = f32[] parameter(0)
          w = f32[] parameter(1)
          ROOT t = f32[] add(v, w)
        }}
        f {{
          a = f32[8] parameter(0)
          b = f32[8] parameter(1)
          i = s32[] parameter(2)
          {body}
        }}
        ENTRY e {{
          p = f32[8] parameter(0)
          q = f32[8] parameter(1)
          n = s32[] parameter(2)
          ROOT r = {shape} fusion(p, q, n), kind=kLoop, calls=f
        }}"""
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ROOT r = f32[8] add(a, b)", {(0, ()), (1, ())}),
        ("n = f32[8] negate(b)\n ROOT r = f32[8] multiply(a, n)", {(0, ()), (1, ())}),
        # another element of b is read after its place was written
        ("v = f32[8] reverse(b), dimensions={0}\n ROOT r = f32[8] add(a, v)", {(0, ())}),
        # b is read at its own place and at another one
        (
            "v = f32[8] reverse(b), dimensions={0}\n w = f32[8] add(b, v)\n"
            "ROOT r = f32[8] add(a, w)",
            {(0, ())},
        ),
        # the scalar has not the size of the result
        ("c = s32[8] broadcast(i), dimensions={}\n ROOT r = f32[8] convert(c)", set()),
        # an update touches nothing but the window
        ("u = f32[2] slice(b), slice={[0:2]}\n"
         "ROOT r = f32[8] dynamic-update-slice(a, u, i)", {(0, ())}),
        # the update is read from the array that is written
        ("u = f32[2] slice(a), slice={[0:2]}\n"
         "ROOT r = f32[8] dynamic-update-slice(a, u, i)", set()),
        # each element of the update is read at its own place
        ("s = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}\n u = f32[2] negate(s)\n"
         "ROOT r = f32[8] dynamic-update-slice(a, u, i)", {(0, ())}),
        ("c = s32[] constant(3)\n s = f32[2] slice(a), slice={[3:5]}\n u = f32[2] negate(s)\n"
         "ROOT r = f32[8] dynamic-update-slice(a, u, c)", {(0, ())}),
        # in another order
        ("s = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}\n"
         "u = f32[2] reverse(s), dimensions={0}\n"
         "ROOT r = f32[8] dynamic-update-slice(a, u, i)", set()),
        # also at the places of other elements
        ("s = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}\n"
         "v = f32[2] reverse(s), dimensions={0}\n u = f32[2] add(s, v)\n"
         "ROOT r = f32[8] dynamic-update-slice(a, u, i)", set()),
        # a part of the same size that begins elsewhere
        ("c = s32[] constant(3)\n s = f32[2] slice(a), slice={[2:4]}\n u = f32[2] negate(s)\n"
         "ROOT r = f32[8] dynamic-update-slice(a, u, c)", set()),
    ],
)  # fmt: skip
def test_fusions(body: str, expected: set[tuple[int, tuple[int, ...]]]) -> None:
    assert fusion(body) == expected


@pytest.mark.parametrize(
    ("body", "shape", "expected"),
    [
        # one loop makes both results and reads what both need before it writes
        ("x = f32[8] negate(a)\n y = f32[8] add(a, b)\n ROOT t = (f32[8], f32[8]) tuple(x, y)",
         "(f32[8], f32[8])", {(0, (0,)), (0, (1,)), (1, (1,))}),
        # the second result reads other elements of a
        ("x = f32[8] negate(a)\n y = f32[8] reverse(a), dimensions={0}\n"
         "ROOT t = (f32[8], f32[8]) tuple(x, y)", "(f32[8], f32[8])", set()),
        # a is read for the sum before the first result is written, element by element
        ("x = f32[8] add(a, b)\n z = f32[] constant(0)\n"
         "s = f32[] reduce(a, z), dimensions={0}, to_apply=sum\n"
         "ROOT t = (f32[8], f32[]) tuple(x, s)", "(f32[8], f32[])", {(0, (0,)), (1, (0,))}),
        # the sum is done before the first result is written
        ("z = f32[] constant(0)\n s = f32[] reduce(a, z), dimensions={0}, to_apply=sum\n"
         "w = f32[8] broadcast(s), dimensions={}\n x = f32[8] add(b, w)\n"
         "ROOT t = (f32[8], f32[]) tuple(x, s)", "(f32[8], f32[])", {(0, (0,)), (1, (0,))}),
        # the second result has a loop of its own, which reads a after the first has written
        ("x = f32[8] negate(a)\n y = f32[2,4] reshape(a)\n"
         "ROOT t = (f32[8], f32[2,4]) tuple(x, y)", "(f32[8], f32[2,4])", set()),
    ],
)  # fmt: skip
def test_several_results(body: str, shape: str, expected: set[tuple[int, tuple[int, ...]]]) -> None:
    assert fusion(body, shape) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("f32[8] negate(p)", {(0, ())}),
        ("s32[8] convert(p)", {(0, ())}),
        ("bf16[8] convert(p)", set()),
        ("f32[8] reverse(p), dimensions={0}", set()),
        ("f32[8] sort(p), dimensions={0}, to_apply=less", set()),
        ("f32[8] copy(p)", {(0, ())}),
        # rows of f32 have other sizes than their spectrum
        ("c64[5] fft(p), fft_type=RFFT, fft_length={8}", set()),
    ],
)
def test_single_instructions(line: str, expected: set[tuple[int, tuple[int, ...]]]) -> None:
    assert (
        pairs(
            f"""HloModule m
        less {{
          x = f32[] parameter(0)
          y = f32[] parameter(1)
          ROOT l = pred[] compare(x, y), direction=LT
        }}
        ENTRY e {{
          p = f32[8] parameter(0)
          ROOT r = {line}
        }}"""
        )
        == expected
    )


def test_a_copy_that_transposes_is_not_in_place() -> None:
    found = pairs(
        """HloModule m
        ENTRY e {
          p = f32[4,4]{1,0} parameter(0)
          ROOT r = f32[4,4]{0,1} copy(p)
        }"""
    )
    assert found == set()


def test_a_transform_reads_a_row_before_it_writes_it() -> None:
    text = "HloModule m\nENTRY e {\n  p = c64[4,8] parameter(0)\n"
    text += "  ROOT r = c64[4,8] fft(p), fft_type=FFT, fft_length={LENGTH}\n}"
    assert pairs(text.replace("LENGTH", "8")) == {(0, ())}
    assert pairs(text.replace("LENGTH", "4,8")) == set()
