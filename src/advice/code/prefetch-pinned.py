DataLoader(dataset, num_workers=COUNT, prefetch_factor=DEPTH, persistent_workers=True, pin_memory=True)   # ADAPT: your dataset
