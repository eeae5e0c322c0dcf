"""Solution 11: list scheduling: run next what frees most and allocates least."""

SMALL = ("parameter", "constant")


def schedule(computation):
    """Return the instructions of `computation`, operands before users, with a low peak."""
    order = []
    waiting = list(computation.instructions)
    while waiting:
        ready = [inst for inst in waiting if all(o in order for o in inst.operands)]
        best = min(ready, key=lambda inst: growth(inst, order))
        order.append(best)
        waiting.remove(best)
    return order


def growth(inst, order):
    """Return by how many bytes memory grows if `inst` runs next."""
    if inst.is_a(*SMALL):
        return -1 << 60  # they take no memory of ours: first
    freed = sum(
        operand.shape.size_bytes
        for operand in dict.fromkeys(inst.operands)
        if not operand.is_a(*SMALL) and all(user is inst or user in order for user in operand.users)
    )
    return inst.shape.size_bytes - freed
