f = open(SOURCE, mode, buffering=1)   # ADAPT: mode, as your open() has it: "w", "a". Text: a line is written when it is complete, and none is lost when the program is killed
# no flush=True; without end="", print() writes one line; log every n-th step if that is still too much
