import os
data = os.pread(f.fileno(), length, offset)   # ADAPT: instead of seek + read
