DataLoader(dataset, num_workers=COUNT, persistent_workers=True)   # ADAPT: your dataset
