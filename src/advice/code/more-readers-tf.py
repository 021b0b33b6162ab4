dataset = dataset.map(read, num_parallel_calls=COUNT)   # ADAPT: read: what opens and reads one sample
