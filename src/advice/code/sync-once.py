import os
f.flush(); os.fsync(f.fileno())   # once, at the end
os.replace(partial, final)
