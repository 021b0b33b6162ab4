mine = samples[rank::ranks]   # ADAPT: each rank its own part
