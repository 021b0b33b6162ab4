DataLoader(dataset, num_workers=COUNT, prefetch_factor=DEPTH)   # ADAPT: your dataset
