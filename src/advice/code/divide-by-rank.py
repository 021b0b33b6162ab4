import torch
sampler = torch.utils.data.DistributedSampler(dataset)   # ADAPT: your dataset; sampler= of its DataLoader
