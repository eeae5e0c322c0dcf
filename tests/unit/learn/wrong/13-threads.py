"""Nearly: elements taken for bytes, and divergence counted for the block instead of the warp."""

ANSWERS = {
    "q1": 2,
    "q2": 13,
    "q3": 605,
    "q4": 45,
    "q5": 4,
    "q6": 5,
    "q7": 141.0,
    "q8": 2,
    "q9": 8,
    "q10": 4,
}
