"""Results get the layouts that the header promises, and keep their values."""

import numpy as np

import hloc
from hloc import driver
from hloc.opt.entry_layout import lay_out_results

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def laid_out(header: str, body: str) -> tuple[str, list[object]]:
    """Return the entry computation afterwards, and what it gives for `X`."""
    text = f"HloModule m, entry_computation_layout={{{header}}}\nENTRY e {{\n{body}\n}}"
    module = driver.parse_text(text)
    expected = driver.evaluate(module, X)
    lay_out_results(module)
    driver.generate(module, driver.DEFAULT)  # the layouts fit one another
    found = hloc.compile(text)(X)
    np.testing.assert_array_equal(found[0], expected[0])
    entry = module.entry
    return "; ".join(f"{i.opcode.name} {i.shape}" for i in entry.instructions), list(found)


TRANSPOSED = "p = f32[2,3]{1,0} parameter(0)\n%s = f32[3,2]{0,1} transpose(p), dimensions={1,0}"


def test_a_transpose_that_nothing_else_reads_writes_the_promised_layout() -> None:
    header = "(f32[2,3]{1,0})->f32[3,2]{1,0}"
    text, _ = laid_out(header, TRANSPOSED % "ROOT t")
    assert text == "parameter f32[2,3]{1,0}; transpose f32[3,2]{1,0}"


def test_what_is_read_elsewhere_is_copied() -> None:
    header = "(f32[2,3]{1,0})->(f32[3,2]{1,0}, f32[3,2]{1,0})"
    body = "\nn = f32[3,2]{0,1} negate(t)\nROOT r = (f32[3,2]{0,1}, f32[3,2]{0,1}) tuple(t, n)"
    text, found = laid_out(header, TRANSPOSED % "t" + body)
    assert "transpose f32[3,2]{0,1}; negate f32[3,2]{1,0}" in text
    assert "copy f32[3,2]{1,0}" in text
    np.testing.assert_array_equal(found[1], -X.T)


def test_a_parameter_is_copied_and_a_row_major_result_stays() -> None:
    text, _ = laid_out("(f32[2,3]{1,0})->f32[2,3]{0,1}", "ROOT p = f32[2,3]{1,0} parameter(0)")
    assert text == "parameter f32[2,3]{1,0}; copy f32[2,3]{0,1}"
    negate = "p = f32[2,3]{1,0} parameter(0)\nROOT n = f32[2,3]{1,0} negate(p)"
    text, _ = laid_out("(f32[2,3]{1,0})->f32[2,3]{1,0}", negate)
    assert text == "parameter f32[2,3]{1,0}; negate f32[2,3]{1,0}"


def test_a_result_that_is_given_twice() -> None:
    header = "(f32[2,3]{1,0})->(f32[3,2]{1,0}, f32[3,2]{0,1})"
    body = "\nROOT r = (f32[3,2]{0,1}, f32[3,2]{0,1}) tuple(t, t)"
    text, found = laid_out(header, TRANSPOSED % "t" + body)
    assert "transpose f32[3,2]{0,1}" in text
    np.testing.assert_array_equal(found[0], X.T)
    np.testing.assert_array_equal(found[1], X.T)
