"""Exercise 14: eight devices. Put an answer where None stands."""

ANSWERS = {
    "q1": None,  # how many groups the all-reduce `sum` has
    "q2": None,  # how many devices meet in one group of `total`
    "q3": None,  # the rank of device 5 in its group of `total`
    "q4": None,  # the first row of x that device 6 holds
    "q5": None,  # the first column of x that device 3 holds
    "q6": None,  # how many bytes a device sends for `sum`
    "q7": None,  # how many bytes a device sends for `total`
    "q8": None,  # how many bytes a device sends to gather f32[16] from each of 8 devices
    "q9": None,  # how many rows device 6 has of 13 rows cut over 8 devices
    "q10": None,  # which device waits in stuck.hlo
}
