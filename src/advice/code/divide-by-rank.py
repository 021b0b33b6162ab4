import torch
sampler = torch.utils.data.DistributedSampler(dataset)   # ADAPT: your dataset; sampler= of its DataLoader
# it shuffles: sampler.set_epoch(epoch) before each epoch; shuffle=False: in order. It repeats samples until all ranks have as many
