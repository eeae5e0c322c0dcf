"""Exercise 13: step through a kernel. Put an answer where None stands."""

ANSWERS = {
    "q1": None,  # how many warps a block of this kernel has
    "q2": None,  # which lane of its warp thread 45 is
    "q3": None,  # at how many bytes from the start of x thread 3 of block 2 reads first
    "q4": None,  # how many lanes of warp 1 add a fifth element
    "q5": None,  # how many elements thread 63 adds up
    "q6": None,  # how many shuffles add up the 32 lanes of a warp
    "q7": None,  # what warp 1 puts into shared memory if x is all ones, as 1.0
    "q8": None,  # how many words of shared memory a block writes
    "q9": None,  # how many sectors 32 lanes touch that read neighbours of type f64
    "q10": None,  # how many threads of the whole launch write a result
}
