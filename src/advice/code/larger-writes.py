f = open(SOURCE, mode, buffering=BYTES)   # ADAPT: mode, as your open() has it: "wb", "ab", "w"; no flush(), no flush=True; f.close() at the end
# a killed program loses what is in the buffer; where every line counts: open(…, mode, buffering=1)
