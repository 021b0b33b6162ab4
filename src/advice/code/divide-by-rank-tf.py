dataset = dataset.shard(world_size, rank)   # ADAPT: its first step
