import os
os.posix_fadvise(f.fileno(), f.tell(), BYTES, os.POSIX_FADV_WILLNEED)   # ADAPT: f is your file; before each part
