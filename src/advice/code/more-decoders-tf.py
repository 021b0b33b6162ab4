dataset = dataset.map(decode, num_parallel_calls=COUNT)   # ADAPT: your decoding
