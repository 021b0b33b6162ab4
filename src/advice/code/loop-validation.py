# the validation data: the same with shuffle="none", last="short": every sample once, in order
