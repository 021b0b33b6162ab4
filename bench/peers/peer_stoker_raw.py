"""stoker.Loader over the very files that tf.data wrote and reads: no packing, no other format."""

import peer_stoker

NAME = "stoker, tf.data's files"
NEEDS = peer_stoker.NEEDS
PIP = []
DATA_OF = "tfdata"  # it reads that contestant's dataset

version, variants = peer_stoker.version, peer_stoker.variants


def epochs(folder, which, order, shuffle):
    return peer_stoker.epochs(folder, which, order, shuffle, data=folder)
