from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(COUNT) as readers:
    for result in readers.map(read, samples):   # ADAPT: what your loop runs over; read(x): its body
        pass   # in the order of `samples`
