"""Solution 1: what the module says."""

ANSWERS = {
    "q1": "f32[4,6]",
    "q2": ["total", "y"],
    "q3": ["relu", "tops"],
    "q4": "broadcast",
    "q5": ["larger"],
    "q6": "y",
    "q7": 128,
    "q8": 23,
    "q9": 4,
    "q10": ["zeros", "total"],
}
