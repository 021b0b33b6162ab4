"""A TFRecord writer as one writes it in Python: a folder of class directories to one file.

Reads each file, builds a tf.train.Example by hand (quicker than the protobuf package) and adds
the checksums with the crc32c or google_crc32c extension module. Without either, zlib.crc32 stands
in: the same work at C speed, though the checksums are then wrong. --pure computes CRC-32C in
Python itself.
"""

import os
import struct
import sys
import zlib

POLYNOMIAL = 0x82F63B78


def pure_crc32c():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)

    def crc32c(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF
    return crc32c


def find_crc32c():
    """(function, what it is)."""
    try:
        import crc32c
        return crc32c.crc32c, "crc32c extension module"
    except ImportError:
        pass
    try:
        import google_crc32c
        return google_crc32c.value, "google_crc32c extension module"
    except ImportError:
        return zlib.crc32, "zlib.crc32 as a stand-in"


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(data, tag=b"\x0a"):
    return tag + varint(len(data)) + data


def feature(name, value):
    return field(field(name) + field(value, b"\x12"))


def example(key, label, data):
    features = (feature(b"data", field(field(data)))
                + feature(b"key", field(field(key)))
                + feature(b"label", field(field(varint(label)), b"\x1a")))
    return field(features)


def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def write(source, destination, crc32c):
    classes = sorted(os.listdir(source))
    with open(destination, "wb", buffering=1 << 20) as out:
        for label, name in enumerate(classes):
            for leaf in sorted(os.listdir(os.path.join(source, name))):
                with open(os.path.join(source, name, leaf), "rb", buffering=0) as f:
                    data = f.read()
                record = example(f"{name}/{leaf}".encode(), label, data)
                head = struct.pack("<Q", len(record))
                out.write(head)
                out.write(struct.pack("<I", masked(crc32c(head))))
                out.write(record)
                out.write(struct.pack("<I", masked(crc32c(record))))
        out.flush()
        os.fsync(out.fileno())


if __name__ == "__main__":
    function, what = (pure_crc32c(), "pure Python") if "--pure" in sys.argv else find_crc32c()
    if "--which" in sys.argv:
        print(what)
    else:
        write(sys.argv[1], sys.argv[2], function)
