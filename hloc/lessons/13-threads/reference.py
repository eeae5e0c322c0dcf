"""Solution 13: what the threads do."""

ANSWERS = {
    "q1": 2,
    "q2": 13,
    "q3": 2420,
    "q4": 13,
    "q5": 4,
    "q6": 5,
    "q7": 141.0,
    "q8": 2,
    "q9": 8,
    "q10": 4,
}
