"""A tf.data.Dataset of batches.

    for batch in stoker.tf.dataset("train-packed", batch=256):      # a dict of tensors
        ...
"""

import tensorflow as tf

from stoker import _stoker, loader


def dataset(data, batch=32, *, ragged=(), **options):
    """A tf.data.Dataset whose elements are dicts of columns; the options are stoker.Loader's.

    Arrays of one shape are dense tensors, byte strings and text are tf.string, arrays of one
    dimension and differing length are ragged: those that differ in the first batch, and the fields
    named in `ragged`. What is neither is left out with `fields=`. Going through it again gives the
    next epoch. Elements are batches already, read ahead by stoker's threads.
    """
    source = loader.Loader(data, batch, **options)
    for name in ("transform", "collate", "batch_transform", "as_tuple"):
        if getattr(source, name):
            raise loader.UsageError(f"{name}: use .map() of the tf.data.Dataset")
    short = source._options.get("last") == "short"
    signature = _signature(source, None if short else source.batch, ragged)

    def batches():
        for one in source:
            yield {name: _value(name, one[name], spec) for name, spec in signature.items()}

    made = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return made.apply(tf.data.experimental.assert_cardinality(len(source)))


def _signature(source, n, ragged):
    """What the columns are is known from a batch: the first, taken by a loader of its own."""
    options = {**source._options, "threads": 1, "last": "pad"}
    probe = _stoker.Loader(source.dataset.handle, None, **options)
    try:
        held = probe.take(0)
        if held is None:
            raise loader.UsageError("the dataset has no samples")
        first = loader.Batch(held)
        return {name: _spec(name, first[name], n, name in ragged) for name in first}
    finally:
        probe.close()


def _spec(name, column, n, ragged):
    if isinstance(column, _stoker.Column):
        return tf.TensorSpec([n], tf.string)
    if not isinstance(column, list) and not ragged:
        return tf.TensorSpec([n, *column.shape[1:]], tf.as_dtype(str(column.dtype)))
    if all(isinstance(v, (str, bytes)) for v in column):
        return tf.TensorSpec([n], tf.string)
    if len({(getattr(v, "ndim", 0), str(getattr(v, "dtype", ""))) for v in column}) == 1 \
            and getattr(column[0], "ndim", 0) == 1:
        return tf.RaggedTensorSpec([n, None], tf.as_dtype(str(column[0].dtype)))
    raise loader.UsageError(f"field {name!r} has no tensor for it: leave it out with fields=")


def _value(name, column, spec):
    if isinstance(column, _stoker.Column):
        return column.tolist()
    if isinstance(spec, tf.RaggedTensorSpec):
        if not isinstance(column, list):  # all of this batch are of one length
            return tf.RaggedTensor.from_tensor(column)
        values = tf.concat([tf.convert_to_tensor(v) for v in column], 0)
        return tf.RaggedTensor.from_row_lengths(values, [len(v) for v in column])
    if isinstance(column, list) and spec.dtype != tf.string:
        raise loader.UsageError(f"field {name!r} has samples of several shapes: "
                                f"say ragged=[{name!r}], or leave it out with fields=")
    return column
