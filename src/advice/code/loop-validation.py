# the validation data: the same with shuffle="none", and nothing random: every sample once, in order
