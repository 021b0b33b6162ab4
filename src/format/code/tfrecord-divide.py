dataset = dataset.shard(world_size, rank)   # tf.data: some ranks have one sample more than others
