"""tf.data: TFRecordDataset with everything it can tune for itself left to it."""

import glob

from samples import BATCH

NAME = "tf.data"
NEEDS = []
ISOLATED = True  # its NumPy is newer than the system's torch bears
PIP = ["tensorflow-cpu==2.21.0"]

SHARDS = 16
BUFFER = {"small": 10000, "large": 1000}


def version():
    import tensorflow
    return f"tensorflow {tensorflow.__version__}"


def write(samples, folder):
    import tensorflow as tf
    each = -(-len(samples) // SHARDS)
    for shard in range(SHARDS):
        with tf.io.TFRecordWriter(f"{folder}/data-{shard:05d}-of-{SHARDS:05d}.tfrecord") as out:
            for i in range(shard * each, min((shard + 1) * each, len(samples))):
                out.write(samples[i])


def variants(_which, _order):
    """One reader or several: which is faster depends on the size of the samples."""
    return [{"readers": n} for n in (1, 4)]


def epochs(folder, which, order, readers):
    import tensorflow as tf
    files = sorted(glob.glob(f"{folder}/*.tfrecord"))
    shuffled = order == "shuffled"
    names = tf.data.Dataset.from_tensor_slices(files)
    if shuffled:
        names = names.shuffle(SHARDS)
    data = tf.data.TFRecordDataset(names, buffer_size=8 << 20,
                                   num_parallel_reads=readers if readers > 1 else None)
    options = tf.data.Options()
    options.deterministic = not shuffled
    data = data.with_options(options)
    if shuffled:
        data = data.shuffle(BUFFER[which])
    data = data.batch(BATCH)
    if which == "small":
        data = data.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.prefetch(tf.data.AUTOTUNE)
    while True:
        yield data.as_numpy_iterator()


def decode(records):
    import tensorflow as tf
    return tf.io.decode_raw(records, tf.uint8)
