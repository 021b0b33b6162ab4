from collections import deque
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
with ProcessPoolExecutor(COUNT) as workers:
    todo = iter(samples)   # ADAPT: decode(sample): your work on one
    ahead = deque(workers.submit(decode, x) for x in islice(todo, 2 * COUNT))
    while ahead:
        result = ahead.popleft().result()   # in the order of `samples`
        ahead.extend(workers.submit(decode, x) for x in islice(todo, 1))
        pass   # what your loop does with `result`, one after another: training
