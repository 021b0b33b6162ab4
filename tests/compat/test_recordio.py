"""RecordIO and MXNet's image records against a Python implementation written from the description
of the format (dmlc-core's recordio.h, MXNet's recordio.py): MXNet itself no longer installs."""

import base64
import json
import struct

import pytest

from conftest import flip_byte

MAGIC = 0xCED7230A
MAGIC_BYTES = struct.pack("<I", MAGIC)


# ---- dmlc RecordIO in Python -------------------------------------------------------------------


def part(flag, data):
    pad = b"\0" * (-len(data) % 4)
    return struct.pack("<II", MAGIC, flag << 29 | len(data)) + data + pad


def dmlc_record(data):
    """One record as dmlc's writer stores it: cut where the magic is at a multiple of 4."""
    out, begin = b"", 0
    for i in range(0, len(data) // 4 * 4, 4):
        if data[i:i + 4] == MAGIC_BYTES:
            out += part(1 if begin == 0 else 2, data[begin:i])
            begin = i + 4
    return out + part(3 if begin else 0, data[begin:])


def dmlc_read(blob):
    """[(offset, data)] as dmlc's reader gives them; asserts that the file is well-formed."""
    records, at, open_parts = [], 0, None
    while at < len(blob):
        magic, word = struct.unpack_from("<II", blob, at)
        flag, length = word >> 29, word & (1 << 29) - 1
        assert magic == MAGIC, f"no magic at {at}"
        data = blob[at + 8:at + 8 + length]
        assert len(data) == length
        if flag in (0, 1):
            assert open_parts is None
            start, open_parts = at, data
        else:
            open_parts += MAGIC_BYTES + data
        if flag in (0, 3):
            records.append((start, open_parts))
            open_parts = None
        at += 8 + (length + 3) // 4 * 4
    assert at == len(blob) and open_parts is None
    return records


def ir_pack(label, number, data):
    """mxnet.recordio.pack: a single label in the header, several behind it."""
    if isinstance(label, (list, tuple)):
        head = struct.pack("<IfQQ", len(label), 0.0, number, 0)
        return head + struct.pack(f"<{len(label)}f", *label) + data
    return struct.pack("<IfQQ", 0, label, number, 0) + data


def ir_unpack(record):
    flag, label, number, _ = struct.unpack_from("<IfQQ", record)
    body = record[24:]
    if flag:
        label, body = list(struct.unpack_from(f"<{flag}f", body)), body[4 * flag:]
    return label, number, body


# ---- helpers -----------------------------------------------------------------------------------


def payloads_with_magic():
    """The magic at every alignment, alone, doubled, at the ends, and half of it."""
    m = MAGIC_BYTES
    found = [b"", b"x", m, m * 2, m * 7, m[:2], m[2:] + m[:2]]
    for lead in range(9):
        for trail in range(5):
            found.append(b"a" * lead + m + b"b" * trail)
            found.append(b"a" * lead + m + b"c" * lead + m * 2 + b"b" * trail)
    return found


def read_back(stoker, src, tmp_path, *args):
    """The samples of src as dicts, through JSON Lines; bytes decoded."""
    dst = tmp_path / f"read-back-{len(list(tmp_path.glob('read-back-*')))}"
    stoker("pack", src, dst, "--format", "jsonl", *args)
    samples = []
    for shard in sorted(dst.glob("*.jsonl")):
        for line in shard.read_text().splitlines():
            sample = json.loads(line)
            data = sample.get("data")
            if isinstance(data, dict):
                sample["data"] = base64.b64decode(data["$base64"])
            elif isinstance(data, str):
                sample["data"] = data.encode()
            samples.append(sample)
    return samples


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    assert len(found) == 1, found
    return found[0]


# ---- theirs, read by us ------------------------------------------------------------------------


def test_reads_image_records(stoker, tmp_path):
    """Labels, ids or images of a .rec made by im2rec would be wrong or lost."""
    images = [b"\xff\xd8\xff" + p for p in payloads_with_magic()]
    rec = tmp_path / "train.rec"
    rec.write_bytes(b"".join(dmlc_record(ir_pack(float(i % 10), 1000 + i, d))
                             for i, d in enumerate(images)))
    got = read_back(stoker, rec, tmp_path)
    assert [s["data"] for s in got] == images
    assert [s["label"] for s in got] == [i % 10 for i in range(len(images))]
    assert [s["key"] for s in got] == [str(1000 + i) for i in range(len(images))]
    assert stoker("verify", rec).rc == 0


def test_reads_several_labels(stoker, tmp_path):
    """Detection and multi-task labels (flag > 0) would be taken for image bytes."""
    rec = tmp_path / "det.rec"
    labels = [[4.0, 5.0, 0.25], [1.5], [0.0, -2.0]]
    rec.write_bytes(b"".join(dmlc_record(ir_pack(l, i, b"\xff\xd8\xffimage%d" % i))
                             for i, l in enumerate(labels)))
    got = read_back(stoker, rec, tmp_path)
    assert [s["label"] for s in got] == labels
    assert [s["data"] for s in got] == [b"\xff\xd8\xffimage%d" % i for i in range(3)]


def test_reads_raw_records(stoker, tmp_path):
    """Records that are not images would be refused or cut."""
    records = payloads_with_magic()
    rec = tmp_path / "raw.rec"
    rec.write_bytes(b"".join(map(dmlc_record, records)))
    for args in ([], ["--from-payload", "raw"]):
        assert [s["data"] for s in read_back(stoker, rec, tmp_path, *args)] == records


# ---- ours, read by theirs ----------------------------------------------------------------------


def test_ours_is_what_dmlc_would_write(stoker, images, tmp_path):
    """MXNet would read other bytes than were packed."""
    folder, files = images
    stoker("pack", folder, tmp_path / "out", "--format", "recordio")
    blob = only(tmp_path / "out", "*.rec").read_bytes()
    want = [ir_pack(float(int(name[5:7])), i, data)
            for i, (name, data) in enumerate(sorted(files.items()))]
    assert blob == b"".join(map(dmlc_record, want))
    assert [ir_unpack(r) for _, r in dmlc_read(blob)] == [ir_unpack(w) for w in want]


@pytest.mark.parametrize("payload", ["image", "raw"])
def test_magic_in_the_data(stoker, tmp_path, payload):
    """A file that happens to hold the magic would break the dataset from there on."""
    folder = tmp_path / "src"
    folder.mkdir()
    contents = payloads_with_magic()
    for i, data in enumerate(contents):
        (folder / f"{i:05d}.bin").write_bytes(data)
    stoker("pack", folder, tmp_path / "out", "--format", "recordio", "--payload", payload)
    rec = only(tmp_path / "out", "*.rec")
    records = [r for _, r in dmlc_read(rec.read_bytes())]
    assert rec.read_bytes() == b"".join(map(dmlc_record, records))
    assert [r if payload == "raw" else ir_unpack(r)[2] for r in records] == contents
    back = read_back(stoker, tmp_path / "out", tmp_path)
    assert [s["data"] for s in back] == contents


def test_idx_leads_to_the_records(stoker, images, tmp_path):
    """MXIndexedRecordIO and DALI could not find a single record."""
    folder, files = images
    stoker("pack", folder, tmp_path / "out", "--format", "recordio", "--shards", "3")
    numbers = []
    for rec in sorted((tmp_path / "out").glob("*.rec")):
        lines = [line.split("\t") for line in rec.with_suffix(".idx").read_text().splitlines()]
        records = dmlc_read(rec.read_bytes())
        assert [int(off) for _, off in lines] == [at for at, _ in records]
        assert [int(key) for key, _ in lines] == [ir_unpack(r)[1] for _, r in records]
        numbers += [int(key) for key, _ in lines]
    assert numbers == list(range(len(files)))


def test_idx_of_other_records(stoker, images, tmp_path):
    """MXIndexedRecordIO would read garbage, or miss samples, of a dataset that is called whole."""
    stoker("pack", images[0], tmp_path / "out", "--format", "recordio", "--shards", "1")
    rec, idx = tmp_path / "v.rec", tmp_path / "v.idx"
    rec.write_bytes(only(tmp_path / "out", "*.rec").read_bytes())
    lines = only(tmp_path / "out", "*.idx").read_text().splitlines(keepends=True)
    for text, said in (lines, None), (lines[:-1], "of the"), ([*lines[:3], "3\t17\n", *lines[4:]], "line 4"):
        idx.write_text("".join(text))
        found = stoker("verify", rec, rc=1 if said else 0)
        assert not said or "v.idx" in found.out and said in found.out


def test_numeric_keys_stay(stoker, tmp_path):
    """Ids of a dataset would change when it is packed again."""
    ids = [5, 3, 900000000000, 0]
    src = tmp_path / "a.rec"
    src.write_bytes(b"".join(dmlc_record(ir_pack(1.0, i, b"\xff\xd8\xffx")) for i in ids))
    stoker("pack", src, tmp_path / "tf", "--format", "tfrecord")
    stoker("pack", tmp_path / "tf", tmp_path / "out", "--format", "recordio", "--payload", "image")
    assert only(tmp_path / "out", "*.rec").read_bytes() == src.read_bytes()


def test_same_bytes_whatever_the_jobs(stoker, images, tmp_path):
    """Two runs of the same pack could not be compared."""
    folder, _ = images
    for jobs in (1, 4):
        stoker("pack", folder, tmp_path / f"j{jobs}", "--format", "recordio", "--jobs", jobs,
               "--name", "x")
    for suffix in ("rec", "idx"):
        assert (only(tmp_path / "j1", f"*.{suffix}").read_bytes()
                == only(tmp_path / "j4", f"*.{suffix}").read_bytes())


@pytest.mark.parametrize("how", ["zstd", "zstd:9", "lz4"])
def test_compressed_records(stoker, images, tmp_path, how):
    """A dataset packed with --compress could not be read again."""
    folder, files = images
    r = stoker("pack", folder, tmp_path / "out", "--format", "recordio", "--compress", how,
               rc=(0, 2, 4))
    if r.rc:
        assert how.split(":")[0] in r.err
        pytest.skip(r.err.strip())
    dmlc_read(only(tmp_path / "out", "*.rec").read_bytes())
    back = read_back(stoker, tmp_path / "out", tmp_path)
    assert [s["data"] for s in back] == [files[k] for k in sorted(files)]
    assert stoker("verify", tmp_path / "out").rc == 0


def test_what_has_no_place_is_refused(stoker, tmp_path):
    """Fields would be dropped in silence."""
    src = tmp_path / "a.jsonl"
    src.write_text('{"key": "a", "data": "x", "caption": "y"}\n')
    r = stoker("pack", src, tmp_path / "out", "--format", "recordio", rc=4)
    assert "caption" in r.err and not (tmp_path / "out").exists()


# ---- damage ------------------------------------------------------------------------------------


def damaged(tmp_path, n=40):
    records = [ir_pack(float(i), i, b"\xff\xd8\xff" + bytes([i]) * (50 + i)) for i in range(n)]
    blobs = [dmlc_record(r) for r in records]
    offsets = [sum(map(len, blobs[:i])) for i in range(n)]
    rec = tmp_path / "d.rec"
    rec.write_bytes(b"".join(blobs))
    return rec, offsets


@pytest.mark.parametrize("byte,mask", [(0, 0x01), (3, 0x80), (4, 0x10), (5, 0x40), (6, 0xFF),
                                       (7, 0x20), (7, 0x40), (7, 0x80)])
def test_damage_costs_one_record(stoker, tmp_path, byte, mask):
    """One flipped bit in a header would cost all records after it."""
    rec, offsets = damaged(tmp_path)
    flip_byte(rec, offsets[20] + byte, mask)
    r = stoker("verify", rec, "--json", "-", rc=1)
    assert f"d.rec:{offsets[20]}" in r.err + r.out or str(offsets[20]) in r.out
    r = stoker("inspect", rec, "--json", "-", rc=(0, 1))
    assert '"samples": 39' in r.out or '"samples":39' in r.out


def test_truncated_tail(stoker, tmp_path):
    """A file that was not copied to its end would pass for whole."""
    rec, offsets = damaged(tmp_path)
    blob = rec.read_bytes()
    for cut in (1, 3, 4, 7, 8, 9, 30):
        rec.write_bytes(blob[:offsets[39] + cut])
        r = stoker("verify", rec, rc=1)
        assert str(offsets[39]) in r.err + r.out
