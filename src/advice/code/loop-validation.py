# the validation data: the same with shuffle="none", and nothing random in decode=: every sample once, in order
