"""Every opcode, one row each in `rows/`, and what rows share; importing this fills the table.

Nothing else registers rows. `opcode_row` returns one; `OPCODES` holds all; `names_of` returns those
with a property.
"""

from hloc.ir.opcode import OPCODES, Opcode, names_of, opcode_row
from hloc.ops import rows

__all__ = ["OPCODES", "Opcode", "names_of", "opcode_row", "rows"]
