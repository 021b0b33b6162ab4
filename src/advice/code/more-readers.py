DataLoader(dataset, num_workers=COUNT, persistent_workers=True)   # ADAPT: your dataset, and the arguments that you have
# the same samples in the same batches; random numbers that a sample draws are those of its worker
