#!/usr/bin/env python3
"""A folder of pictures, packed, and read by TensorFlow.

    python tensorflow_read.py FOLDER PACKED

FOLDER has one folder a class with JPEG or PNG files in it (pytorch_mnist.py makes such ones). The
shards in PACKED are plain TFRecord files: the second half reads them without stoker.
"""

import os
import pathlib
import subprocess
import sys

import tensorflow as tf

import stoker
import stoker.tf

STOKER = os.environ.get("STOKER", "stoker")


def with_stoker(packed):
    """Decoded and batched by stoker's threads; TensorFlow gets uint8 tensors of (32, 28, 28, 1)."""
    batches = stoker.tf.dataset(packed, batch=32, seed=1, decode="image:28,gray")
    classes = len(stoker.Dataset(packed).classes)
    model = tf.keras.Sequential([
        tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(classes)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"])
    for _ in range(3):  # each pass over `batches` is the next epoch
        history = model.fit(batches.map(lambda b: (b["data"], b["label"])), verbose=0)
        print(f"accuracy {history.history['accuracy'][-1]:.2f}")


def without_stoker(packed):
    """The same files with nothing but TensorFlow."""
    features = {"data": tf.io.FixedLenFeature([], tf.string),
                "label": tf.io.FixedLenFeature([], tf.int64)}
    shards = sorted(str(p) for p in pathlib.Path(packed).glob("*.tfrecord"))
    count = sum(1 for _ in tf.data.TFRecordDataset(shards).map(
        lambda record: tf.io.parse_single_example(record, features)))
    print(f"TFRecordDataset sees {count} examples in {len(shards)} files")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, packed = sys.argv[1:]
    if not pathlib.Path(packed).exists():
        subprocess.run([STOKER, "pack", folder, packed, "--quiet"], check=True)
    with_stoker(packed)
    without_stoker(packed)


if __name__ == "__main__":
    main()
