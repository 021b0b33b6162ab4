f = open(SOURCE, "wb", buffering=BYTES)   # ADAPT: your mode ("w": text); no flush(), no flush=True; f.close() at the end
# a killed program loses what is in the buffer; where every line counts: open(…, "a", buffering=1)
