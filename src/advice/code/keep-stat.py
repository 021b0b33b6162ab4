import os
found = os.stat(SOURCE)   # once, before the loop
