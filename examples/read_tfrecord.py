#!/usr/bin/env python3
"""Reads a dataset that `stoker pack` wrote as TFRecord, with nothing but Python's own library:
neither stoker nor TensorFlow is needed. Shows that the files are plain TFRecord, and how to read
them where nothing can be installed.

    ./read_tfrecord.py train-packed/              the first samples and a count
    ./read_tfrecord.py train-packed/ --check      and every checksum (slow in pure Python)
"""

import argparse
import json
import pathlib
import struct
import sys
from itertools import islice


def crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


TABLE = crc32c_table()


def masked_crc(data):
    """CRC-32C, rotated and offset as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path, check):
    """The records of one file. A record: u64 length, u32 its CRC, the bytes, u32 their CRC."""
    with open(path, "rb") as f:
        while head := f.read(12):
            if len(head) < 12 or masked_crc(head[:8]) != struct.unpack("<I", head[8:])[0]:
                raise ValueError(f"{path}: damaged record header before byte {f.tell()}")
            (length,) = struct.unpack("<Q", head[:8])
            data, tail = f.read(length), f.read(4)
            if len(data) < length or len(tail) < 4:
                raise ValueError(f"{path}: the file ends inside a record")
            if check and masked_crc(data) != struct.unpack("<I", tail)[0]:
                raise ValueError(f"{path}: damaged data before byte {f.tell()}")
            yield data


# ---- tf.train.Example: protobuf messages inside each other ----------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def message(data):
    """(field number, value) of one protobuf message; values are int or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(kind) or varint(data, at)
            value = data[at:at + length]
            at += length
        yield tag >> 3, value


def packed_or_not(values, unpack):
    """A list of numbers may stand as one run of bytes or one by one."""
    out = []
    for value in values:
        out.extend([value] if isinstance(value, int) else unpack(value))
    return out


def varints(data):
    at, out = 0, []
    while at < len(data):
        value, at = varint(data, at)
        out.append(value)
    return out


def feature(data):
    """bytes_list = 1, float_list = 2, int64_list = 3; inside each, the values are field 1."""
    for number, inner in message(data):
        values = [v for n, v in message(inner) if n == 1]
        if number == 1:
            return values
        if number == 2:
            return packed_or_not(values, lambda v: struct.unpack(f"<{len(v) // 4}f", v))
        if number == 3:
            ints = packed_or_not(values, varints)
            return [v - (1 << 64) if v >> 63 else v for v in ints]
    return []


def example(data):
    """Example { Features features = 1 { map<string, Feature> feature = 1 } } as a dict."""
    out = {}
    for _, features in message(data):
        for _, entry in message(features):
            pair = dict(message(entry))
            out[pair.get(1, b"").decode()] = feature(pair.get(2, b""))
    return out


# ---- the dataset ----------------------------------------------------------------------------


def samples(folder, manifest, check):
    for shard in manifest["shards"]:
        for record in records(folder / shard["name"], check):
            yield example(record)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="check the CRC of every record")
    parser.add_argument("-n", type=int, default=3, help="samples to show (default 3)")
    args = parser.parse_args()
    manifest = json.loads((args.folder / "manifest.json").read_text())
    if (manifest["format"], manifest["payload"]) != ("tfrecord", "example"):
        sys.exit(f"{args.folder}: not TFRecord files of tf.train.Example")
    if manifest["compression"]:
        sys.exit(f"{args.folder}: samples are compressed with {manifest['compression']}")
    stream = samples(args.folder, manifest, args.check)
    count = 0
    for sample in islice(stream, args.n):
        count += 1
        key = sample.get("key", [b""])[0].decode()
        label = sample.get("label", [None])[0]
        name = manifest["classes"][label] if label is not None and manifest["classes"] else "-"
        print(f"{key}  label {label} ({name})  data {len(sample.get('data', [b''])[0])} bytes")
    count += sum(1 for _ in stream)
    print(f"{count} samples read, {manifest['samples']} in the manifest"
          + (", every checksum right" if args.check else ""))
    return 0 if count == manifest["samples"] else 1


if __name__ == "__main__":
    sys.exit(main())
