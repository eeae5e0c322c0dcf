"""Solution 14: who meets whom, and what is sent."""

ANSWERS = {
    "q1": 4,
    "q2": 4,
    "q3": 2,
    "q4": 6,
    "q5": 2,
    "q6": 48,
    "q7": 36,
    "q8": 448,
    "q9": 1,
    "q10": 2,
}
