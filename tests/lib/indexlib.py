"""Index files taken apart and put together again (docs/index.md), with checksums that are right whatever
was changed: an index as somebody would make it who wants to be believed."""

import json
import pathlib
import struct

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                      0x27D4EB2F165667C5)
HEADER, TABLES, BLOCK, COUNT = 808, 832, 65536, 20
NAMES = ["files", "names", "dirs", "extents", "segments", "columns", "rows", "parts", "keyoff", "keys", "fields",
         "fieldnames", "chains", "points", "windows", "crcs", "context", "sums", "checks", "notes"]


def rotated(x, by):
    return ((x << by) | (x >> (64 - by))) & MASK


def lane(acc, value):
    return rotated((acc + value * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    data, at, h = bytes(data), 0, P5
    if len(data) >= 32:
        acc = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        for at in range(0, len(data) - 31, 32):
            acc = [lane(a, v) for a, v in zip(acc, struct.unpack_from("<4Q", data, at))]
        at += 32
        h = sum(rotated(a, r) for a, r in zip(acc, (1, 7, 12, 18))) & MASK
        for a in acc:
            h = ((h ^ lane(0, a)) * P1 + P4) & MASK
    h = (h + len(data)) & MASK
    while at + 8 <= len(data):
        h = (rotated(h ^ lane(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        h = (rotated(h ^ (struct.unpack_from("<I", data, at)[0] * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotated(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    for shift, prime in ((33, P2), (29, P3), (32, 1)):
        h = (h ^ (h >> shift)) * prime & MASK
    return h


class Index:
    """bytes of an index; `with` nothing: change it, then write(path) makes all checksums right."""

    def __init__(self, path):
        self.data = bytearray(pathlib.Path(path).read_bytes())

    def table(self, name):
        """(offset, number of entries, bytes of an entry)"""
        off, count, _, elem = struct.unpack_from("<QQQI", self.data, 128 + 32 * NAMES.index(name))
        return off, count, elem

    def set_count(self, name, count):
        struct.pack_into("<Q", self.data, 128 + 32 * NAMES.index(name) + 8, count)

    def put(self, name, entry, at, form, *values):
        """Packs values into an entry of a table, `at` bytes from its beginning."""
        off, _, elem = self.table(name)
        struct.pack_into("<" + form, self.data, off + entry * elem + at, *values)

    def get(self, name, entry, at, form):
        off, _, elem = self.table(name)
        return struct.unpack_from("<" + form, self.data, off + entry * elem + at)

    def set_header(self, at, value):
        """files: 32, extents: 40, samples: 48"""
        struct.pack_into("<Q", self.data, at, value)

    def seal(self):
        data, sums = self.data, self.table("sums")[0]
        blocks = [xxh64(data[at:min(at + BLOCK, sums)]) for at in range(TABLES, sums, BLOCK)]
        struct.pack_into(f"<{len(blocks)}Q", data, sums, *blocks)
        for i in range(COUNT):
            off, count, _, elem = struct.unpack_from("<QQQI", data, 128 + 32 * i)
            if off + count * elem <= len(data):
                struct.pack_into("<Q", data, 128 + 32 * i + 16, xxh64(data[off:off + count * elem]))
        struct.pack_into("<Q", data, 24, 0)
        struct.pack_into("<Q", data, 24, xxh64(data[:HEADER]))

    def write(self, path):
        self.seal()
        pathlib.Path(path).write_bytes(self.data)


def manifest_without_checksum(path):
    """What it says, as earlier versions wrote it: its text can be changed at will."""
    manifest = json.loads(path.read_text())
    del manifest["xxh64"]
    return {**manifest, "stoker_manifest": 1}
