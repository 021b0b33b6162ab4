# ADAPT: a file that is of use only when it is complete: a killed program loses what is in the buffer
f = open(SOURCE, "wb", buffering=BYTES)   # bytes; "w": text. No flush(), no flush=True; f.close() at the end
# ADAPT: a file in which every line counts: a line is written when it is complete
f = open(SOURCE, "a", buffering=1)        # text
