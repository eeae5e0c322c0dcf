"""What Python would say."""

ANSWERS = {
    "q1": 1.0,
    "q2": 0.0,
    "q3": -4,
    "q4": 1,
    "q5": -1,
    "q6": False,
    "q7": -128,
    "q8": 127,
}
