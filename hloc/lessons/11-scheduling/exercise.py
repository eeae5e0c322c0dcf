"""Exercise 11: the order in which instructions run, with a low peak of memory."""


def schedule(computation):
    """Return the instructions of `computation`, operands before users.

    `inst.shape.size_bytes`, `inst.operands` and `inst.users` are all you need: an array is live
    from the instruction that defines it to the last one that reads it.
    """
    order = []
    waiting = list(computation.instructions)
    while waiting:
        ready = [inst for inst in waiting if all(o in order for o in inst.operands)]
        best = ready[0]  # is the first one really the best?
        order.append(best)
        waiting.remove(best)
    return order
