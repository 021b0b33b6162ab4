"""stoker.tf, in a Python that has TensorFlow: STOKER_TF_PYTHON names one. JAX where it is there."""

import os
import subprocess
import sys

import pytest

from pythonlib import environment, python, stoker, write_records

import numpy as np

pytestmark = pytest.mark.others


@pytest.fixture(scope="module")
def tensorflow():
    """tensorflow(script, *args): runs it where TensorFlow is."""
    for candidate in (os.environ.get("STOKER_TF_PYTHON"), sys.executable):
        if candidate and subprocess.run([candidate, "-c", "import tensorflow"], env=environment(),
                                        stderr=subprocess.DEVNULL).returncode == 0:
            return lambda script, *args: python(script, *args, executable=candidate, timeout=300)
    return pytest.skip("no TensorFlow here; STOKER_TF_PYTHON may name a Python that has it")


def test_dense_and_ragged(tensorflow, tmp_path):
    """Arrays, text and ragged arrays become tensors; each pass is the next epoch."""
    (tmp_path / "a.jsonl").write_text("".join(
        '{"label": %d, "v": %s, "x": [1.5, %d], "t": "s%d"}\n' % (i, list(range(1 + i % 3)), i, i)
        for i in range(20)))
    out = tensorflow("""
import sys
import tensorflow as tf
import stoker.tf
ds = stoker.tf.dataset(sys.argv[1], batch=4, seed=1, ragged=["v"])
assert int(ds.cardinality()) == 5, ds.cardinality()
spec = ds.element_spec
assert spec["label"] == tf.TensorSpec([4], tf.int64) and spec["x"].shape == [4, 2], spec
assert isinstance(spec["v"], tf.RaggedTensorSpec) and spec["t"].dtype == tf.string
orders = []
for epoch in range(2):
    seen = []
    for batch in ds:
        for label, v, x, t in zip(batch["label"].numpy(), batch["v"].to_list(),
                                  batch["x"].numpy(), batch["t"].numpy()):
            assert v == list(range(1 + label % 3)) and x[1] == label and t == b"s%d" % label
            seen.append(int(label))
    assert sorted(seen) == list(range(20)), seen
    orders.append(seen)
assert orders[0] != orders[1]
try:
    for batch in stoker.tf.dataset(sys.argv[1], batch=1, fields=["v"]):
        pass
except tf.errors.UnknownError as e:  # what TensorFlow makes of an exception
    assert "ragged=['v']" in str(e), e
print("good")
""", tmp_path / "a.jsonl")
    assert out.strip() == "good"


def test_byte_strings_and_short_batches(tensorflow, tmp_path):
    """Records are tf.string; a short last batch is allowed for in the shape."""
    write_records(tmp_path / "r.tfrecord", [bytes([i]) * 50 for i in range(10)])
    out = tensorflow("""
import sys
import tensorflow as tf
import stoker.tf
ds = stoker.tf.dataset(sys.argv[1], batch=4, shuffle=False, last="short")
assert ds.element_spec["data"] == tf.TensorSpec([None], tf.string)
ds = ds.map(lambda b: tf.map_fn(lambda s: tf.reduce_max(tf.io.decode_raw(s, tf.uint8)), b["data"],
                                fn_output_signature=tf.uint8)).prefetch(2)
print([b.numpy().tolist() for b in ds])
""", tmp_path / "r.tfrecord")
    assert out.strip() == "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]"


def test_jax(tmp_path):
    """JAX takes the arrays as they are."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    np.save(tmp_path / "a.npy", np.arange(24, dtype=np.float32).reshape(6, 4))
    batch = next(iter(stoker.Loader(tmp_path / "a.npy", batch=6, shuffle=False)))
    assert float(jax.numpy.asarray(batch["data"]).sum()) == 276.0
