f = open(SOURCE, "a", buffering=1)   # once, before the loop: text, of which each line is written when it is complete
