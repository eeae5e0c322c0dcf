"""Nearly: an instruction that reads the counter, instead of the one that writes it."""

ANSWERS = {
    "q1": 17,
    "q2": "attend",
    "q3": 2,
    "q4": 7,
    "q5": "fused_computation.27",
    "q6": 8,
    "q7": "fused_computation.8",
    "q8": 24576,
    "q9": "copy.8",
    "q10": "dynamic-slice_bitcast_fusion",
    "q11": "s32[64,1]{0,1}",
    "q12": "__ynn_fusion",
}
