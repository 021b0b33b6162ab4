import json
config = json.load(open(SOURCE))   # once, before the loop
