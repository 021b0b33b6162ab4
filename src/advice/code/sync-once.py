# ADAPT: a checkpoint: the old or the new one is there, whole
import stoker
stoker.save(state, SOURCE)   # once, when it is complete; write=: your own writer
# ADAPT: a log: no fsync() per line. Its lines outlive the program when they are written, and the node when they are synced
