"""Exercise 1: read a module. Put an answer where None stands."""

ANSWERS = {
    "q1": None,  # the shape of xw, as "f32[2,3]"
    "q2": None,  # the users of e, as ["a", "b"]
    "q3": None,  # the operands of shifted, in order
    "q4": None,  # the opcode of tops
    "q5": None,  # the computations that top calls
    "q6": None,  # the name of the root of the entry computation
    "q7": None,  # how many bytes the value of x takes
    "q8": None,  # how many instructions the module has
    "q9": None,  # how many broadcasts the module has
    "q10": None,  # the users of zero
}
