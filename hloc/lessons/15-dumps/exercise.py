"""Exercise 15: read a dump of XLA. Put an answer where None stands."""

ANSWERS = {
    "q1": None,  # the line of model.py that the kernel subtract_exponential_fusion comes from
    "q2": None,  # the function of model.py that ynn_fusion.4 comes from
    "q3": None,  # how many times the loop over the layers runs
    "q4": None,  # the index of the mask in the state of the loop
    "q5": None,  # the computation that makes the mask
    "q6": None,  # how many matrix products the model has
    "q7": None,  # the computation with the product of the last activations and the table of words
    "q8": None,  # how many bytes the scores of all words take, f32[4,16,96]
    "q9": None,  # the name of the copy inside the loop
    "q10": None,  # the instruction that would overwrite the counter if it were not copied
    "q11": None,  # the layout of bitcast.40, with its shape
    "q12": None,  # the kind of fusion in the backend_config of ynn_fusion
}
