"""Runs one contestant in its own Python: writes its dataset, or reads epochs of it and times them.

    driver.py PEER version
    driver.py PEER write WHICH COUNT FOLDER
    driver.py PEER read FOLDER '{"which": …, "order": …, "epochs": N, "options": {…}}'

Prints one JSON object on the last line. Imports are over before a clock starts; what a contestant
does when its loader is made, and when an epoch begins, counts.
"""

import importlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from samples import Consumer, Samples  # noqa: E402


def read(peer, folder, spec):
    peer.version()  # imports what it needs
    times, first_s = [], None
    start = time.perf_counter()
    epochs = peer.epochs(folder, spec["which"], spec["order"], **spec["options"])
    for _ in range(spec["epochs"]):
        consumer = Consumer()
        for batch in next(epochs):
            if first_s is None:
                first_s = time.perf_counter() - start
            consumer.take(batch)
        now = time.perf_counter()
        times.append(now - start)
        start = now
    return {"epoch_s": times, "first_batch_s": first_s, "samples": consumer.samples,
            "bytes": consumer.bytes, "sum": consumer.total}


def main():
    name, action, *rest = sys.argv[1:]
    peer = importlib.import_module(f"peer_{name}")
    result = {}
    if action == "version":
        result["version"] = peer.version()
    elif action == "write":
        peer.version()
        start = time.perf_counter()
        peer.write(Samples(rest[0], int(rest[1])), rest[2])
        result["write_s"] = time.perf_counter() - start
    else:
        result = read(peer, rest[0], json.loads(rest[1]))
    sys.stdout.flush()
    print("\n" + json.dumps(result), flush=True)
    os._exit(0)  # some contestants' threads and workers do not end by themselves


if __name__ == "__main__":
    main()
