"""TFRecord and tf.train.Example written and read without stoker and without TensorFlow.

The framing and CRC-32C are written out here from the format's description; messages go through
Google's protobuf with a descriptor of example.proto and feature.proto built at run time. So that
a mistake in stoker cannot hide in a test that shares its code.
"""

import ctypes
import functools
import os
import struct
import subprocess
import tempfile

# Bit by bit, as the definition has it. In C: tests have megabytes to sum up.
_CRC = """
unsigned crc32c(const unsigned char *p, unsigned long n)
{
    unsigned c = 0xFFFFFFFF;
    while (n--) {
        c ^= *p++;
        for (int i = 0; i < 8; i++)
            c = c >> 1 ^ (c & 1 ? 0x82F63B78 : 0);
    }
    return ~c;
}
"""


@functools.cache
def _library():
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with tempfile.TemporaryDirectory(prefix="stoker-crc-") as folder:
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o",
                        f"{folder}/crc.so"], input=_CRC.encode(), check=True, env=env)
        library = ctypes.CDLL(f"{folder}/crc.so")
    library.crc32c.restype = ctypes.c_uint
    library.crc32c.argtypes = [ctypes.c_char_p, ctypes.c_ulong]
    return library


def crc32c(data):
    return _library().crc32c(bytes(data), len(data))


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data, length=None):
    """One record. length: what the header shall say instead of the truth (with a right CRC)."""
    head = struct.pack("<Q", len(data) if length is None else length)
    return head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))


def records(blob):
    """The records of a file's bytes, every checksum checked."""
    out, at = [], 0
    while at < len(blob):
        (length,), (head_crc,) = struct.unpack_from("<Q", blob, at), struct.unpack_from("<I", blob, at + 8)
        assert masked(blob[at:at + 8]) == head_crc, f"length CRC at {at}"
        data = blob[at + 12:at + 12 + length]
        assert len(data) == length, f"record at {at} is cut off"
        assert struct.unpack_from("<I", blob, at + 12 + length)[0] == masked(data), f"data CRC at {at}"
        out.append(data)
        at += length + 16
    return out


def messages(packed=True):
    """(Example, SequenceExample) classes of protobuf's, as TensorFlow's .proto files declare them."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    package = "tensorflow" if packed else "tensorflow.unpacked"
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package,
                                              syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        m = file.message_type.add(name=name)
        for number, (field, kind, repeated) in enumerate(fields, 1):
            f = m.field.add(name=field, number=number,
                            label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL)
            if isinstance(kind, str):
                f.type, f.type_name = kinds.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                f.type = kind
                if repeated and kind != kinds.TYPE_BYTES:
                    f.options.packed = packed
        return m

    def map_message(name, field, value):
        m = message(name, (field, f"{name}.Entry", True))
        entry = m.nested_type.add(name="Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL,
                        type_name=f".{package}.{value}")

    message("BytesList", ("value", kinds.TYPE_BYTES, True))
    message("FloatList", ("value", kinds.TYPE_FLOAT, True))
    message("Int64List", ("value", kinds.TYPE_INT64, True))
    feature = message("Feature", ("bytes_list", "BytesList", False),
                      ("float_list", "FloatList", False), ("int64_list", "Int64List", False))
    feature.oneof_decl.add(name="kind")
    for f in feature.field:
        f.oneof_index = 0
    message("FeatureList", ("feature", "Feature", True))
    map_message("Features", "feature", "Feature")
    map_message("FeatureLists", "feature_list", "FeatureList")
    message("Example", ("features", "Features", False))
    message("SequenceExample", ("context", "Features", False),
            ("feature_lists", "FeatureLists", False))
    # Map entries are named after their field (FeatureEntry) or protobuf refuses them.
    for m in file.message_type:
        for nested in m.nested_type:
            field = m.field[0]
            nested.name = "".join(w.title() for w in field.name.split("_")) + "Entry"
            field.type_name = f".{package}.{m.name}.{nested.name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [f"{package}.Example", f"{package}.SequenceExample"]
    if hasattr(message_factory, "GetMessageClass"):
        return tuple(message_factory.GetMessageClass(pool.FindMessageTypeByName(n)) for n in names)
    factory = message_factory.MessageFactory(pool)
    return tuple(factory.GetPrototype(pool.FindMessageTypeByName(n)) for n in names)


def fill(feature, value):
    """Sets a Feature from bytes, a list of bytes, floats or ints."""
    values = [value] if isinstance(value, (bytes, int, float)) else list(value)
    if not values or isinstance(values[0], bytes):
        feature.bytes_list.value.extend(values)
        feature.bytes_list.SetInParent()
    elif isinstance(values[0], float):
        feature.float_list.value.extend(values)
    else:
        feature.int64_list.value.extend(values)


def make_example(cls, values):
    m = cls()
    for name, value in values.items():
        fill(m.features.feature[name], value)
    return m.SerializeToString()


def feature_values(feature):
    """("bytes" | "float" | "int64" | None, values) of a Feature."""
    kind = feature.WhichOneof("kind")
    return (kind.split("_")[0], list(getattr(feature, kind).value)) if kind else (None, [])


def example_values(m):
    """{name: (kind, values)} of an Example."""
    return {n: feature_values(f) for n, f in m.features.feature.items()}
