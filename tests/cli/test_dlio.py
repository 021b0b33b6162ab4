"""Workload files of DLIO and MLPerf Storage: the shapes that come with them, with our own numbers."""

import json
import subprocess

import pytest

from conftest import STOKER

if "libyaml" in subprocess.run([STOKER, "bench", "bert", "--show-workload"], capture_output=True, text=True).stderr:
    pytest.skip("stoker was built without libyaml", allow_module_level=True)

VIRTUAL = ("--virtual-storage", "100M,1ms")  # no sleeping, and the same result every time


@pytest.fixture
def dlio(stoker, tmp_path):
    """dlio(text, *options) -> (result, what the run printed)."""
    def run(text, *options, ranks=1):
        path, out = tmp_path / "w.yaml", tmp_path / "out.json"
        path.write_text(text)
        got = stoker("bench", "--dlio", path, "--data", tmp_path / "d", "--ranks", ranks, "--json", out, *VIRTUAL,
                     *options, cwd=tmp_path)
        return json.loads(out.read_text())["result"], got.out
    return run


DLRM = """model: {name: dlrm, type: recsys}
framework: pytorch
workflow: {generate_data: True, train: True, do_eval: True}
dataset:
  data_folder: data/dlrm
  format: indexed_binary
  num_files_train: 1
  num_files_eval: 1
  num_samples_per_file: 64
  record_length_bytes: 5000
reader: {data_loader: pytorch, batch_size: 4, sample_shuffle: random}
train: {epochs: 1, computation_time: 0.064296}
"""


def test_records_with_an_index(dlio):
    """One file for all ranks: each reads the index, then its samples, one request each."""
    result, _ = dlio(DLRM, ranks=2)
    assert [r["steps"] for r in result["per_rank"]] == [64 // 2 // 4] * 2
    assert result["io"]["opens"] == 2
    assert result["io"]["requests"] == 64 + 2 * 2
    assert result["io"]["bytes_read"] == 64 * 5000 + 2 * 64 * 16


def test_records_of_a_mapping_are_read_by_page(dlio):
    """Megatron's token files are mapped: the kernel reads pages, not records."""
    text = DLRM.replace("indexed_binary", "mmap_indexed_binary").replace("sample_shuffle: random", "sample_shuffle: off")
    result, _ = dlio(text)
    first = 64 * 16  # the index
    pages = [(first + i * 5000) // 4096 for i in range(64)]
    ends = [min(-(-(first + (i + 1) * 5000) // 4096) * 4096, first + 64 * 5000) for i in range(64)]
    assert result["io"]["requests"] == 64 + 2
    assert result["io"]["bytes_read"] == first + sum(e - 4096 * p for p, e in zip(pages, ends))


MEGATRON = """model:
  name: megatron
  type: megatron_deepspeed
  optimization_groups: [1000, 800, 7]
  model_size: 30102
  num_layers: 5
  parallelism: {pipeline: 2, tensor: 2, zero_stage: 1}
  layer_parameters: [500, 2001]
framework: pytorch
workflow: {generate_data: True, train: True, checkpoint: True}
dataset: {format: mmap_indexed_binary, num_files_train: 1, num_samples_per_file: 320, record_length_bytes: 2048}
reader: {data_loader: pytorch, batch_size: 4, read_threads: 1, file_shuffle: seed, sample_shuffle: seed}
train: {epochs: 3, computation_time: 2.44, total_training_steps: 20}
checkpoint: {checkpoint_folder: c, steps_between_checkpoints: 10, type: all_ranks}
"""


@pytest.mark.parametrize("old", [False, True])
def test_checkpoints_with_sizes_given(dlio, old):
    """The old way: bytes of a layer, divided by tensor parallelism, and three tensors per group."""
    text = MEGATRON
    if old:  # keys that stood in another section
        lines = [line for line in text.splitlines() if line.split(":")[0].strip() not in
                 ("optimization_groups", "num_layers", "layer_parameters")]
        text = "\n".join(lines).replace("type: all_ranks}", "type: all_ranks, optimization_groups: [1000, 800, 7], "
                                        "num_layers: 5, layer_parameters: [500, 2001]}")
    result, _ = dlio(text, ranks=8)
    layers = 5 * 2 * (250 + 1000)      # every layer once, by two ranks each, in a copy of the model
    optimizer = 8 * 3 * 1807
    assert result["checkpoints"] == 2
    assert result["checkpoint_bytes"] == 2 * (layers + optimizer)


def test_a_part_of_a_large_job_writes_its_share(dlio):
    """MLPerf Storage's subset: 2 of 8 ranks."""
    text = """model:
  name: llama
  type: transformer
  num_layers: 6
  model_datatype: fp32
  optimizer_datatype: fp16
  parallelism: {tensor: 1, pipeline: 4, zero_stage: 1, data: 2}
  transformer: {hidden_size: 64, ffn_hidden_size: 128, vocab_size: 256, num_attention_heads: 4, num_kv_heads: 2}
framework: pytorch
workflow: {generate_data: False, train: False, checkpoint: True}
checkpoint:
  checkpoint_folder: c
  mode: subset
  time_between_checkpoints: 5
  num_checkpoints_write: 2
  num_checkpoints_read: 2
  recovery_rank_shift: True
  rank_sync: True
  randomize_tensor: False
  ksm: {madv_mergeable_id: 12}
  fsync: True
"""
    result, _ = dlio(text, "--generate", "++workload.model.optimization_groups=[]", ranks=2)
    block = 2 * 64 + 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 128
    parameters = 2 * 256 * 64 + 6 * block + 64
    optimizer = parameters * 6 // 8
    # Two stages of two layers; the first has the embedding.
    assert result["checkpoint_bytes"] == 2 * (4 * (4 * block + 256 * 64) + 2 * optimizer)
    assert result["restore_bytes"] == result["checkpoint_bytes"]


DEFAULT = """model: {name: default}
framework: pytorch
workflow: {generate_data: True, train: True, evaluation: True, profiling: False}
dataset:
  format: npz
  num_files_train: 16
  num_files_eval: 8
  num_samples_per_file: 1
  record_length_bytes: 4096
  num_subfolders_train: 2
  num_subfolders_eval: 4
reader: {data_loader: pytorch, batch_size: 4, batch_size_eval: 1}
train: {epochs: 5, computation_time: 1.00}
evaluation: {eval_time: 0.5, eval_after_epoch: 2, epochs_between_evals: 3}
output: {metric: {exclude_start_steps: 1, exclude_end_steps: 2}}
profiling: {profiler: iostat, iostat_devices: [sda, sdb]}
"""


def test_evaluation_has_its_own_batch_and_folders(dlio, stoker, tmp_path):
    result, out = dlio(DEFAULT, ranks=2)
    data = tmp_path / "d"
    assert [r["evaluation_steps"] for r in result["per_rank"]] == [2 * 4] * 2  # after epochs 2 and 5
    assert result["io"]["opens"] == 5 * 16 + 2 * 8
    assert {p.parent.name for p in data.glob("eval/*/*.npz")} == {"00000", "00001", "00002", "00003"}
    assert [r["measured_steps"] for r in result["per_rank"]] == [5 * 2 - 3] * 2
    assert "profiling.profiler" in result["dlio_keys_without_effect"] and "profiling.profiler" in out
    stoker("bench", "--clean", "--data", data)
    assert not data.exists()


@pytest.mark.parametrize("text, wait", [
    ("preprocess_time: 0.02", 0.04), ("preprocess_time: {type: uniform, min: 0.02, max: 0.02}", 0.04),
    ("preprocess_time: 0.0", 0.0)])
def test_preprocessing_takes_the_reader_time(dlio, text, wait):
    """Two samples of 20 ms each against 50 ms of computing: one thread keeps up. Against 30 ms it does not."""
    workload = DEFAULT.replace("evaluation: True", "evaluation: False").replace("batch_size: 4", f"batch_size: 2, {text}")
    quick, _ = dlio(workload, "train.computation_time=0.05", "output.metric.exclude_end_steps=0", "--virtual-storage", "100G")
    slow, _ = dlio(workload, "train.computation_time=0.03", "output.metric.exclude_end_steps=0", "--virtual-storage", "100G")
    assert quick["utilisation"] == pytest.approx(1, abs=0.001)
    assert slow["utilisation"] == pytest.approx(0.03 / max(0.03, wait), abs=0.01)


@pytest.mark.parametrize("theirs, suffix, requests", [("npy", ".npy", 1), ("npz", ".npz", 2), ("jpeg", ".bin", 2),
                                                      ("png", ".bin", 2)])
def test_files_that_are_read_whole(dlio, tmp_path, theirs, suffix, requests):
    """numpy.load reads an NPY file at once, members of an NPZ file 256 KiB at a time."""
    text = DEFAULT.replace("format: npz", f"format: {theirs}").replace("evaluation: True", "evaluation: False")
    result, _ = dlio(text, "dataset.record_length_bytes=300000", "train.epochs=1", "output.metric.exclude_end_steps=0")
    assert len(list((tmp_path / "d/train").glob(f"*/*{suffix}"))) == 16
    assert result["io"]["opens"] == 16 and result["io"]["requests"] == 16 * requests


def test_arrays_have_a_shape_and_a_type(dlio):
    """dataset.record_dims replaces the length; HDF5 chunks have dimensions, too."""
    text = DEFAULT.replace("format: npz", "format: hdf5").replace("evaluation: True", "evaluation: False").replace(
        "  record_length_bytes: 4096\n", "  record_dims: [32, 64]\n  record_element_type: float32\n  compression: gzip\n"
        "  hdf5: {chunk_dims: [1, 32, 16], num_dset_per_record: 1, max_shape: [32, 64]}\n")
    result, _ = dlio(text, "train.epochs=1", "output.metric.exclude_end_steps=0")
    assert result["workload"]["dataset.record"] == "8192"
    assert result["workload"]["dataset.chunk"] == 2048
    assert result["workload"]["dataset.compression"] == "gzip"


def test_a_file_that_only_generates(dlio, stoker, tmp_path):
    """MLPerf Storage generates with a file of its own, without reader and training."""
    path = tmp_path / "w.yaml"
    path.write_text("""model: {name: unet3d, model_size: 499153191}
framework: pytorch
workflow: {generate_data: True, train: False, checkpoint: False}
storage: {storage_type: local_fs, storage_root: root, storage_options: }
dataset: {data_folder: data/u/, format: npz, num_files_train: 6, record_length_bytes: 1460, record_length_bytes_stdev: 68}
""")
    stoker("bench", "--dlio", path, cwd=tmp_path)
    assert len(list((tmp_path / "root/data/u/train").glob("*.npz"))) == 6
    assert not (tmp_path / "root/data/u/checkpoint").exists()


def test_a_change_replaces_a_value_that_would_be_refused(dlio):
    text = DLRM.replace("dataset:", "storage: {storage_type: s3, storage_root: bucket}\ndataset:")
    result, _ = dlio(text, "++workload.storage.storage_type=local_fs")
    assert result["io"]["opens"] == 1 and result["workload"]["dataset.format"] == "indexed"


@pytest.mark.parametrize("old, new, why", [
    ("dataset:", "storage: {storage_type: s3}\ndataset:", 'line 4: storage.storage_type: "s3" is not replayed here, only: '
     "local_fs parallel_fs; objects of a store"),
    ("  format: npz", "  format: parquet\n  parquet:\n    columns:\n      - name: a",
     'line 5: dataset.format: "parquet" is not replayed here, only: tfrecord hdf5'),
    ("  format: npz", "  format: synthetic", 'line 5: dataset.format: "synthetic" is not replayed'),
    ("  format: npz", "  format: csv\n  compression: bz2", 'line 6: dataset.compression: "bz2" is not replayed'),
    ("data_loader: pytorch", "data_loader: native_dali", 'reader.data_loader: "native_dali" is not replayed here'),
    ("data_loader: pytorch", "reader_classname: a.b.C", "line 12: reader.reader_classname: classes of Python"),
    ("computation_time: 1.00", "computation_time: {type: gamma, shape: 2}", "train.computation_time: gamma lacks scale"),
    ("computation_time: 1.00", "computation_time: {type: beta, shape: 2}", 'train.computation_time: "beta" is not'),
    ("epochs: 5", "epochs: x", "line 13: train.epochs: training.epochs:"),
    ("eval_time: 0.5", "eval_time: 0.5, evaltime: 2", "line 14: evaluation.evaltime: this key of DLIO is not replayed"),
    ("  record_length", "  record_dims: [3, x]\n  record_length", "line 9: dataset.record_dims: \"3,x\" is not a list"),
    ("train: True", "train: False, checkpoint: True", "checkpoint.num_checkpoints_write: without training"),
    ("train: True", "train: True, checkpoint: True", None),
])
def test_what_is_refused_is_named(stoker, tmp_path, old, new, why):
    """With its key, its line and the reason, before anything is written."""
    path = tmp_path / "w.yaml"
    assert old in DEFAULT
    path.write_text(DEFAULT.replace(old, new, 1))
    got = stoker("bench", "--dlio", path, "--data", tmp_path / "d", *VIRTUAL, rc=4 if why else 0)
    assert why is None or why in got.err
    assert (tmp_path / "d").exists() == (why is None)
