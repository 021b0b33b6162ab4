# in place of your own write, fsync and rename: the old or the new file is there, whole
import stoker
stoker.save(state, SOURCE, background=True)   # ADAPT: your state, which may change then; write=: your own writer
# a save waits for the one before of the same file; Python waits for the last one when it ends
