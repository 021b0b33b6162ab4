"""A tf.data.Dataset of batches.

    for batch in stoker.tf.dataset("train-packed", batch=256):      # a dict of tensors
        ...
"""

import tensorflow as tf

from stoker import _stoker, loader


def dataset(data, batch=32, **options):
    """A tf.data.Dataset whose elements are dicts of columns; the options are stoker.Loader's.

    Arrays of one shape are dense tensors, byte strings and text are tf.string, arrays of one
    dimension and differing length are ragged. Fields of other kinds are left out by `fields=`. Going
    through it again gives the next epoch. Batches come in order, already batched and prefetched.
    """
    source = loader.Loader(data, batch, **options)
    signature = _signature(source, None if options.get("last") == "short" else batch)

    def batches():
        for one in source:
            yield {name: _value(one[name], spec) for name, spec in signature.items()}

    made = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return made.apply(tf.data.experimental.assert_cardinality(len(source)))


def _signature(source, n):
    """What the columns are is known from a batch: the first, taken by a loader of its own."""
    options = {**source._options, "batch": 1, "threads": 1, "last": loader.LAST["pad"]}
    probe = _stoker.Loader(source.dataset.handle, rank=0, world=1, **options)
    try:
        held = probe.next()
        if held is None:
            raise loader.UsageError("the dataset has no samples")
        first = loader.Batch(held)
        return {name: _spec(name, first[name], n) for name in first}
    finally:
        probe.close()


def _spec(name, column, n):
    if isinstance(column, _stoker.Column):
        return tf.TensorSpec([n], tf.string)
    if not isinstance(column, list):
        return tf.TensorSpec([n, *column.shape[1:]], tf.as_dtype(str(column.dtype)))
    value = column[0]
    if isinstance(value, (str, bytes)):
        return tf.TensorSpec([n], tf.string)
    if getattr(value, "ndim", None) == 1:
        return tf.RaggedTensorSpec([n, None], tf.as_dtype(str(value.dtype)))
    raise loader.UsageError(f"field {name!r} has no tensor for it: leave it out with fields=")


def _value(column, spec):
    if isinstance(spec, tf.RaggedTensorSpec):
        if not isinstance(column, list):  # all of this batch are of one length
            return tf.RaggedTensor.from_tensor(column)
        values = tf.concat([tf.convert_to_tensor(v) for v in column], 0)
        return tf.RaggedTensor.from_row_lengths(values, [len(v) for v in column])
    if isinstance(column, _stoker.Column):
        return column.tolist()
    return column
