# in place of torch.save(state, path) and the like: the old or the new checkpoint is there, whole, whenever the job is killed
import os, stoker
def save(state, name):   # name: "last.pt"; write=: your own writer of an object to a file
    return stoker.save(state, os.path.join(SOURCE, name), near=TARGET, background=True)
# a checkpoint waits for the copy of the one before; Python waits for the last one when it ends
