"""The note of a partitioner on a collective."""

import hloc
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.reshard_note import ReshardNote, note_of, with_note

_TEXT = """HloModule m, num_partitions=2

ENTRY e {
  p = f32[2] parameter(0)
  ROOT g = f32[4] all-gather(p), dimensions={0}, channel_id=1, replica_groups={{0,1}},
    use_global_device_ids=true, frontend_attributes={kept="1"}
}
"""


def _noted(inst: Instruction, note: ReshardNote) -> Instruction:
    computation: Computation = inst.computation
    new = computation.add(
        inst.opcode, inst.shape, inst.operands, inst.attributes, common=with_note(inst.common, note)
    )
    computation.replace(inst, new)
    return new


def test_a_note_survives_printing_and_reading() -> None:
    note = ReshardNote('w"1', "dot.3", "{devices=[2,1]<=[2]}", "{replicated}")
    module = hloc.parse(_TEXT)
    assert note_of(module.entry.root) is None
    _noted(module.entry.root, ReshardNote("old", "", "", ""))
    _noted(module.entry.root, note)
    again = hloc.parse(module.to_text())
    assert note_of(again.entry.root) == note
    assert dict(again.entry.root.common.frontend_attributes)["kept"] == '"1"'
