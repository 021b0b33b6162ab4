from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(COUNT) as workers:
    for result in workers.map(decode, samples):   # ADAPT: decode(sample): your work on one
        pass   # in the order of `samples`
