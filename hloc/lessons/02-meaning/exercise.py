"""Exercise 2: what does each small program return? Put the value where None stands.

NaN is written float("nan"), the negative zero -0.0, truth True or False.
"""

ANSWERS = {
    "q1": None,  # maximum of NaN and 1
    "q2": None,  # -0.0 + 0.0
    "q3": None,  # -7 / 2 as s32
    "q4": None,  # the remainder of -7 and 2 as s32
    "q5": None,  # 1 / 0 as s32
    "q6": None,  # is NaN equal to NaN? True or False
    "q7": None,  # 127 + 1 as s8
    "q8": None,  # 300.0 converted to s8
}
