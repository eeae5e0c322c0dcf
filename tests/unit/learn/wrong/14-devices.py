"""Nearly: the rank taken for the device, and the whole array sent to every other device."""

ANSWERS = {
    "q1": 4,
    "q2": 4,
    "q3": 5,
    "q4": 6,
    "q5": 2,
    "q6": 48,
    "q7": 72,
    "q8": 448,
    "q9": 1,
    "q10": 2,
}
