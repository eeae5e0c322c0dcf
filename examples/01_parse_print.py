"""Read a module, look at it, print it in XLA's three styles, see what a mistake looks like.

python examples/01_parse_print.py
"""

from collections import Counter
from pathlib import Path

import hloc

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Walk through what the front end offers."""
    module = hloc.load(str(HERE / "softmax_relu.hlo"))

    # A module is computations, a computation is instructions, an instruction has operands.
    for computation in module.computations:
        marker = "ENTRY " if computation is module.entry else ""
        print(f"{marker}{computation.name}: {len(computation)} instructions")
    root = module.entry.root
    print(f"root: {root}")
    print(f"its operands: {', '.join(operand.name for operand in root.operands)}")

    opcodes = Counter(inst.opcode.name for inst in module.entry.instructions)
    print("most frequent:", ", ".join(f"{name} x{n}" for name, n in opcodes.most_common(4)))

    # `str(module)` is the short style; the default one has percent signs, types and metadata.
    for style in ("short", "default", "canonical"):
        last = module.to_text(style).strip().splitlines()[-2]
        print(f"{style:10s}{last.strip()}")

    # Printing and reading again gives the same module.
    assert str(hloc.parse(str(module))) == str(module)

    # A mistake is shown where it is, and all of them in one go.
    wrong = str(module).replace("reduce_max.7 =", "reduce_max.8 =", 1)
    try:
        hloc.parse(wrong)
    except hloc.HloError as error:
        print(error)


if __name__ == "__main__":
    main()
