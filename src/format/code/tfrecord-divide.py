dataset = dataset.shard(world_size, rank)                # tf.data
