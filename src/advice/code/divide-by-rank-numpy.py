mine = samples[rank::ranks]   # ADAPT: each rank its own part: some ranks have one sample more than others
