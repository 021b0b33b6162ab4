DataLoader(dataset, num_workers=COUNT)   # ADAPT: your dataset
