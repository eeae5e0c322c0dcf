"""What a module answers stays comparable when a pass makes the program of each device of it."""

from hloc import driver
from hloc.opt.pipeline import Pipeline
from hloc.report import answers

ROWS_OF_FOUR_DEVICES = """HloModule rows, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY main {
  x = f32[6,3] parameter(0), sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  sums = f32[3] reduce(x, zero), dimensions={0}, to_apply=add
  doubled = f32[6,3] add(x, x)
  ROOT both = (f32[3], f32[6,3]) tuple(sums, doubled), sharding={{replicated}, {devices=[4,1]<=[4]}}
}
"""


def test_a_partitioned_module_answers_on_whole_arrays() -> None:
    before = driver.parse_text(ROWS_OF_FOUR_DEVICES)
    inputs = answers.input_sets(before)
    wanted = [answers.answer_of(before, each, answers.evaluated) for each in inputs]
    assert None not in wanted
    after = driver.parse_text(ROWS_OF_FOUR_DEVICES)
    assert Pipeline.parse(driver.PARTITION).run(after)
    assert after.entry.parameters[0].shape != before.entry.parameters[0].shape
    for runner in (answers.evaluated, answers.compiled):
        assert answers.difference(after, inputs, wanted, runner) == ""


def test_a_wrong_part_of_a_partitioned_module_is_found() -> None:
    before = driver.parse_text(ROWS_OF_FOUR_DEVICES)
    inputs = answers.input_sets(before)
    wanted = [answers.answer_of(before, each, answers.evaluated) for each in inputs]
    wrong = driver.parse_text(ROWS_OF_FOUR_DEVICES.replace("add(x, x)", "multiply(x, x)"))
    Pipeline.parse(driver.PARTITION).run(wrong)
    for runner in (answers.evaluated, answers.compiled):
        assert "out1" in answers.difference(wrong, inputs, wanted, runner)
