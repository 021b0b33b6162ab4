from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
with ThreadPoolExecutor(COUNT) as readers:
    todo = iter(samples)   # ADAPT: what your loop runs over; read(x): what reads and decodes one
    ahead = deque(readers.submit(read, x) for x in islice(todo, 2 * COUNT))
    while ahead:
        result = ahead.popleft().result()   # in the order of `samples`
        ahead.extend(readers.submit(read, x) for x in islice(todo, 1))
        pass   # what your loop does with `result`, one after another: training
