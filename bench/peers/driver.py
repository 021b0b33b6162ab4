"""Runs one contestant in its own Python: writes its dataset, or reads epochs of it and times them.

    driver.py PEER version
    driver.py PEER variants WHICH ORDER
    driver.py PEER write WHICH COUNT FOLDER
    driver.py PEER read FOLDER WHICH ORDER '{options}'      an epoch for each line on standard input

Prints JSON, a line for each answer. Imports are over before a clock starts; what a contestant does
when its loader is made counts in its first epoch, what it does when an epoch begins in each.
"""

import importlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from samples import Consumer, Samples  # noqa: E402


def say(answer, answers):
    os.write(answers, json.dumps(answer).encode() + b"\n")


def one_epoch(batches, start):
    consumer, first_s = Consumer(), None
    for batch in batches:
        if first_s is None:
            first_s = time.perf_counter() - start
        consumer.take(batch)
    return {"seconds": time.perf_counter() - start, "first_batch_s": first_s,
            "samples": consumer.samples, "bytes": consumer.bytes, "sum": consumer.total}


def read(peer, folder, which, order, options, answers):
    peer.version()  # imports what it needs
    say({"ready": True}, answers)
    epochs = None
    for _ in sys.stdin:
        start = time.perf_counter()
        if epochs is None:
            epochs = peer.epochs(folder, which, order, **options)
        say(one_epoch(next(epochs), start), answers)


def main():
    # Contestants and their workers print what they like: answers have a descriptor of their own.
    answers = os.dup(1)
    os.dup2(2, 1)
    name, action, *rest = sys.argv[1:]
    peer = importlib.import_module(f"peer_{name}")
    if action == "version":
        say({"version": peer.version()}, answers)
    elif action == "variants":
        say({"variants": peer.variants(*rest)}, answers)
    elif action == "write":
        peer.version()
        start = time.perf_counter()
        peer.write(Samples(rest[0], int(rest[1])), rest[2])
        say({"write_s": time.perf_counter() - start}, answers)
    else:
        read(peer, *rest[:3], json.loads(rest[3]), answers)
    os._exit(0)  # threads and workers of some do not end by themselves


if __name__ == "__main__":
    main()
