"""Changes a training script so that it reads data that was packed or moved, as a patch beside it.

    python -m stoker.patch train.py --packed /data/train=/data/train-packed -o train.py.diff
    python -m stoker.patch train.py --moved /lustre/d.h5=/tmp/d.h5 --set num_workers=8

It prints a unified diff, for `patch train.py train.py.diff`, and never changes the script. It knows
calls by the names that the script imports: torchvision's ImageFolder, torch's DataLoader, and what
opens files (h5py.File, numpy.load, open, tf.data, …). Modules that the script imports from its own folder
are looked at as well: the diff may be for several files. Exit status: 0 with a patch, 1 if it found
nothing to change, 2 for wrong usage.
"""

import argparse
import ast
import difflib
import io
import itertools
import os
import pathlib
import re
import sys
import tokenize

PICTURES, LOADER = "torchvision.datasets.ImageFolder", "torch.utils.data.DataLoader"
RECORDS = "tensorflow.data.TFRecordDataset"
# Calls that open data: their first argument is its path, or several, and this is its name.
OPENERS = {
    PICTURES: "root", "torchvision.datasets.DatasetFolder": "root", "torchvision.io.read_image": "path",
    "torchvision.io.read_file": "path", "torchvision.datasets.folder.default_loader": "path", "torch.load": "f",
    "torchaudio.load": "uri", "h5py.File": "name", "numpy.load": "file", "numpy.memmap": "filename",
    "numpy.fromfile": "file", "numpy.loadtxt": "fname", "numpy.genfromtxt": "fname",
    "pandas.read_csv": "filepath_or_buffer", "pandas.read_parquet": "path", "pandas.read_hdf": "path_or_buf",
    "pandas.read_pickle": "filepath_or_buffer", "pyarrow.parquet.read_table": "source",
    "pyarrow.parquet.ParquetFile": "source", "tensorflow.data.TFRecordDataset": "filenames",
    "tensorflow.data.TextLineDataset": "filenames", "tensorflow.data.FixedLengthRecordDataset": "filenames",
    "tensorflow.data.Dataset.from_tensor_slices": "tensors", "tensorflow.data.Dataset.list_files": "file_pattern",
    "tensorflow.io.gfile.glob": "pattern", "tensorflow.io.gfile.GFile": "name",
    "tensorflow.keras.utils.image_dataset_from_directory": "directory",
    "lmdb.open": "path", "tarfile.open": "name", "zipfile.ZipFile": "file", "gzip.open": "filename",
    "PIL.Image.open": "fp", "cv2.imread": "filename", "imageio.imread": "uri", "skimage.io.imread": "fname",
    "soundfile.read": "file", "zarr.open": "store", "xarray.open_dataset": "filename_or_obj",
    "netCDF4.Dataset": "filename", "builtins.open": "file"}
# Those of them that can also write: the place of their argument `mode`, and what it is if it is not given.
MODES = {"h5py.File": (1, "r"), "builtins.open": (1, "r"), "gzip.open": (1, "rb"), "numpy.memmap": (2, "r+"),
         "tarfile.open": (1, "r"), "zipfile.ZipFile": (1, "r"), "tensorflow.io.gfile.GFile": (1, "r"),
         "netCDF4.Dataset": (1, "r"), "zarr.open": (1, "a")}
# Calls that take rows of arrays: those of stoker.arrays, which also take where the data was packed to.
ROWS = {"h5py.File": "stoker.arrays.File", "numpy.load": "stoker.arrays.load"}
ROWS_END = (".h5", ".hdf5", ".he5", ".npy")
# Calls that take an open file in the place of a path, whatever it is named.
TAKE_FILES = {"torch.load", "numpy.load", "PIL.Image.open", "soundfile.read", "zipfile.ZipFile", "gzip.open",
              "pandas.read_parquet", "pyarrow.parquet.read_table", "pyarrow.parquet.ParquetFile"}
# Methods that change a list.
LIST_CHANGES = ("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort")
# Methods of a pathlib.Path.
PATH_READS = ("read_bytes", "read_text", "open")
# Arguments of a DataLoader that may be given without their names.
LOADER_PLACES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn",
                 "pin_memory", "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator")
# Arguments of torchvision's ImageFolder that stoker's does not have; they are behind three others.
CODE_OF_PICTURES = ("loader", "is_valid_file", "allow_empty")
# The same thing under its other names.
OTHER_NAMES = {"torchvision.datasets.folder.ImageFolder": PICTURES,
               "torch.utils.data.dataloader.DataLoader": LOADER,
               "tensorflow.data.experimental.TFRecordDataset": "tensorflow.data.TFRecordDataset"}


class Script:
    """The source as UTF-8, the names it imports, and the edits: (begin, end, order at the same place, text) in bytes."""

    def __init__(self, source):
        self.encoding = tokenize.detect_encoding(io.BytesIO(source).readline)[0]
        text = source.decode(self.encoding)
        self.source = text.encode()
        self.tree = ast.parse(text)
        self.lines = [0]
        for line in self.source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.imported, self.edits, self.said, self.needs = {"open": "builtins.open"}, [], [], set()
        for node in ast.walk(self.tree):
            self._note_import(node)
        # In a formatted string, older Pythons allow no quotes of its own kind, and do not know where things are.
        self.quoted = {n for s in ast.walk(self.tree) if isinstance(s, ast.JoinedStr) for n in ast.walk(s)}

    def _note_import(self, node):
        if isinstance(node, ast.Import):
            for a in node.names:
                self.imported[a.asname or a.name.split(".")[0]] = a.name if a.asname else a.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for a in node.names:
                self._note_name(node.module, a)

    def _note_name(self, module, a):
        if a.name != "*":
            self.imported[a.asname or a.name] = f"{module}.{a.name}"
            return
        for known in (*OPENERS, LOADER, *OTHER_NAMES):  # what an import of everything brings
            if known.rpartition(".")[0] == module:
                self.imported[known.rpartition(".")[2]] = known

    def name_of(self, node):
        """The full name of what an expression names: `datasets.ImageFolder` as torchvision's."""
        words = []
        while isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return None
        full = ".".join([self.imported[node.id], *reversed(words)])
        return OTHER_NAMES.get(full, full)

    def calls(self, names):
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call) or self.name_of(node.func) not in names:
                continue
            if node not in self.quoted:
                yield node
            else:
                self.say(node, f"{ast.unparse(node.func)} in a formatted string: not changed")

    def span(self, node):
        return (self.lines[node.lineno - 1] + node.col_offset,
                self.lines[node.end_lineno - 1] + node.end_col_offset)

    def text(self, node):
        begin, end = self.span(node)
        return self.source[begin:end].decode()

    def replace(self, node, text):
        self.edits.append((*self.span(node), 0, text))

    def has_edited(self, node):
        return any((begin, end) == self.span(node) for begin, end, *_ in self.edits)

    def insert(self, at, text, order=0):
        self.edits.append((at, at, order, text))

    def wrap(self, node, before, after):
        """Calls within calls may begin, or end, at the same place: the outer one is outside."""
        begin, end = self.span(node)
        self.insert(begin, before, -end)
        self.insert(end, after, -begin)

    def _after(self, at, call):
        """The end of the last argument with its own parentheses, which are in no node."""
        end = self.span(call)[1] - 1
        if not at:
            return end
        last, in_comment = at, False
        for i in range(at, end):
            byte = self.source[i:i + 1]
            in_comment = byte == b"#" or (in_comment and byte != b"\n")
            if byte == b")" and not in_comment:
                last = i + 1
        return last

    def say(self, node, text):
        line = f"line {node.lineno}: {text}"
        if line not in self.said:
            self.said.append(line)

    def argument(self, call, name, place):
        """The value of an argument by its name or place: a node, or None."""
        if any(isinstance(a, ast.Starred) for a in call.args[:place + 1]):
            return None
        named = next((k.value for k in call.keywords if k.arg == name), None)
        return call.args[place] if place < len(call.args) else named

    def add_keywords(self, call, options):
        """name=text, … in a call, behind its last argument."""
        arguments = [*call.args, *(k.value for k in call.keywords)]
        last = self._after(max((self.span(n)[1] for n in arguments), default=0), call)
        text = ", ".join(f"{name}={value}" for name, value in options.items())
        self.insert(last, f"{', ' if arguments else ''}{text}")

    def set_arguments(self, call, places, options):
        """The same, where the call may have them already: by name, by place, or in a **."""
        def has(name):
            return self.argument(call, name, places.index(name) if name in places else len(places))
        unpacked = [k.value for k in call.keywords if k.arg is None]
        missing = {name: text for name, text in options.items() if has(name) is None}
        for name in options.keys() - missing.keys():
            self.replace(has(name), options[name])
        if unpacked:
            then = "".join(f", {n!r}: {v}" for n, v in missing.items())
            self.replace(unpacked[-1], f"{{**({self.text(unpacked[-1])}){then}}}")
        elif missing:
            self.add_keywords(call, missing)
        if len(unpacked) > 1:
            self.say(call, f"{', '.join(missing)} may also be in another ** of this call: look at it")

    def edited(self):
        made = self.source
        for begin, end, _, text in sorted(self.edits, reverse=True):
            made = made[:begin] + text.encode() + made[end:]
        ast.parse(made)  # what is no Python any more is nobody's patch
        return made.decode().encode(self.encoding)


class Copied(str):
    """The path of a packed dataset of which a node may have a copy."""

    def __new__(cls, path, old, new):
        made = super().__new__(cls, path)
        made.places = {old: new}
        return made

    def __repr__(self):
        return f"stoker.moved({str(self)!r}, {literal(self.places)})"


def with_copies(packed, moved):
    """(packed, moved): what is packed is read at the place where the packed data has been copied to, if it is there."""
    packed, moved = dict(packed), dict(moved)
    for folder, dataset in packed.items():
        for old, new in moved.items():
            if dataset == old or dataset.startswith(old.rstrip("/") + "/"):
                packed[folder] = Copied(dataset, old, new)
    return packed, {old: new for old, new in moved.items()
                    if not any(isinstance(d, Copied) and old in d.places for d in packed.values())}


def literal(places):
    return "{" + ", ".join(f"{old!r}: {new!r}" for old, new in places.items()) + "}"


def is_plain(script, call):
    """Whether an ImageFolder has none of the arguments that are code and that stoker's does not have."""
    code = [k.arg for k in call.keywords if k.arg in CODE_OF_PICTURES]
    code += list(CODE_OF_PICTURES[:max(len(call.args) - 3, 0)])
    if code:
        script.say(call, f"ImageFolder with {code[0]}=, which stoker's does not have: not changed")
    return not code


def is_there(place):
    """What cannot be looked at is an error: it may be there."""
    try:
        return bool(os.stat(place))
    except (FileNotFoundError, NotADirectoryError):
        return False


def names_in(place):
    """Some names of files at a place. A folder that cannot be listed is an error."""
    def stop(why):
        raise why
    walked = (name for _, _, names in os.walk(place, onerror=stop) for name in names)
    found = walked if os.path.isdir(place) else [os.path.basename(place)]
    return list(itertools.islice(found, NAMES_MAX))


def holds(places, of):
    """Whether `of` is true for the name of some file of the data. Nobody knows about data that is not there."""
    return any(not is_there(p) or any(map(of, names_in(p))) for p in places)


def holds_rows(places):
    return not places or holds(places, lambda name: name.endswith(ROWS_END))


def is_records(name):
    return name.endswith((".tfrecord", ".tfrecords", ".tfrec", ".tfr")) or ".tfrecord-" in name


def holds_files(places):
    """Folders of files with a sample each."""
    return holds([p for p in places if not pathlib.Path(p).is_file()],
                 lambda name: not name.endswith((".h5", ".hdf5", ".he5")) and not is_records(name))


def changed_things(script):
    """What the program assigns, deletes, or changes by a method of lists: expressions."""
    for node in ast.walk(script.tree):
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            yield node.value if isinstance(node, ast.Subscript) else node
        elif isinstance(node, ast.Attribute) and node.attr in LIST_CHANGES:
            yield node.value


def changed_samples(script):
    """Where the program changes the list of samples of an object, by which torchvision's ImageFolder reads; None: not in
    this file. A class may have such a list of its own."""
    for node in changed_things(script):
        if isinstance(node, ast.Attribute) and node.attr in ("samples", "imgs") and ast.unparse(node.value) != "self":
            return node
    return None


def take_pictures(script, places):
    """ImageFolders are stoker's; they read the packed dataset of a folder that has one."""
    changed = changed_samples(script)
    for call in script.calls({PICTURES}):
        if changed is not None:
            script.say(call, f"ImageFolder, whose samples line {changed.lineno} changes: not changed")
        if changed is not None or not is_plain(script, call):
            continue
        script.replace(call.func, "stoker.torch.ImageFolder")
        if places:
            script.add_keywords(call, {"packed": literal(places)})
        script.say(call, f"ImageFolder {'reads the packed dataset' if places else 'is that of stoker'}")
        script.needs.add("import stoker.torch")


def maps_rows(script, call):
    """Whether a call opens arrays to read rows of them."""
    if script.name_of(call.func) != "numpy.load":
        return only_reads(script, call)
    given = script.argument(call, "mmap_mode", 1)
    return isinstance(given, ast.Constant) and given.value == "r"


def take_rows(script, places):
    """Files of HDF5 and mapped arrays of NumPy are those of stoker.arrays."""
    for call in script.calls(ROWS):
        if maps_rows(script, call):
            name = script.text(call.func)
            script.replace(call.func, ROWS[script.name_of(call.func)])
            if places:
                script.add_keywords(call, {"packed": literal(places)})
            script.say(call, f"{name} takes rows from {'the packed dataset' if places else 'stoker'}")
            script.needs.add("import stoker.arrays")
        elif script.name_of(call.func) == "numpy.load" and not (places and holds_files(places)):
            script.say(call, "numpy.load without mmap_mode='r' reads a file as a whole, once: not changed")


def wrap_path(script, path, function, places):
    script.wrap(path, f"stoker.files.{function}(", f", {literal(places)})")
    script.needs.add("import stoker.files")


def take_files(script, places):
    """What opens a file of a folder that was packed gets its bytes from there."""
    for call in script.calls(OPENERS):
        name, path = script.name_of(call.func), script.argument(call, OPENERS[script.name_of(call.func)], 0)
        if name in ROWS and maps_rows(script, call) or name in (PICTURES, RECORDS) or not only_reads(script, call):
            continue
        if name == "builtins.open" and path is not None:
            script.replace(call.func, "stoker.files.open")
            script.add_keywords(call, {"packed": literal(places)})
        elif name in TAKE_FILES and path is not None:
            wrap_path(script, path, "member", places)
        else:
            script.say(call, f"{script.text(call.func)} takes no file from packed data: not changed")
            continue
        script.say(call, f"{script.text(call.func)} takes a file that was packed from there")
        script.needs.add("import stoker.files")
    for call in path_reads(script):
        wrap_path(script, call.func.value, "path", places)
        script.say(call, f"{call.func.attr}() of a pathlib.Path takes a file that was packed from there")


def path_reads(script):
    """Calls of what may be a pathlib.Path: p.read_bytes(). When it runs, other objects stay as they are."""
    for call in ast.walk(script.tree):
        func = getattr(call, "func", None)
        if isinstance(func, ast.Attribute) and func.attr in PATH_READS and script.name_of(func) is None \
                and call not in script.quoted and (func.attr != "open" or opens_to_read(script, call)):
            yield call


def opens_to_read(script, call):
    """Whether the first argument of open() can be a mode, and one that reads."""
    mode = script.argument(call, "mode", 0)
    return not call.args and mode is None or isinstance(mode, ast.Constant) and mode.value in ("r", "rt", "rb")


def take_records(script, places):
    """tf.data reads the shards of files that were packed, if they are TFRecord."""
    for call in script.calls({RECORDS}):
        names, packing = script.argument(call, "filenames", 0), script.argument(call, "compression_type", 1)
        if names is None or packing is not None and getattr(packing, "value", True):
            script.say(call, "the shards are not compressed as these files may be: give TFRecordDataset the names of the "
                       "shards by hand")
            continue
        wrap_path(script, names, "records", places)
        script.say(call, "TFRecordDataset reads the shards of the packed dataset")
    shards = ", ".join(f"{new}/*.tfrecord" for new in places.values())
    listed = [call for call in script.calls({"tensorflow.data.Dataset.list_files", "tensorflow.io.gfile.glob"})]
    for node in (*listed, *(n for n in passed_on(script) if script.name_of(n) == RECORDS)):
        script.say(node, f"not changed: list the shards by hand, {shards}")


def stand_in(script, places):
    """What reads the data becomes what reads it through stoker."""
    take_pictures(script, places)
    if holds_rows(places):
        take_rows(script, places)
    if places and holds(places, is_records):
        take_records(script, places)
    if places and holds_files(places):
        take_files(script, places)
    for node in passed_on(script) if script.edits else ():
        script.say(node, f"{script.text(node)} is passed on, and not changed: see where its paths come from")


def read_by_threads(script, decode):
    """DataLoaders of a program with such calls: those of other datasets stay torch's when it runs."""
    for call in script.calls({LOADER}):
        script.replace(call.func, "stoker.torch.DataLoader")
        script.say(call, f"threads of stoker read ahead{' and decode pictures' if decode else ''}, if they can")
        script.needs.add("import stoker.torch")


def only_reads(script, call):
    """Whether a call opens data to read it. What writes is no data that has moved."""
    place, mode = MODES.get(script.name_of(call.func), (None, "r"))
    given = script.argument(call, "mode", place) if place is not None else None
    if given is not None and not (isinstance(given, ast.Constant) and isinstance(given.value, str)):
        script.say(call, f"{script.text(call.func)}: whether it only reads is not known here; not changed")
        return False
    mode = mode if given is None else given.value
    if given is None and not mode.startswith("r") or "+" in mode:
        script.say(call, f"{script.text(call.func)} may also write (mode {mode!r}); not changed")
    return mode.startswith("r") and "+" not in mode


def read_moved(script, places):
    """Every path of data that is opened goes through stoker.moved()."""
    for call in script.calls(OPENERS):
        path = script.argument(call, OPENERS[script.name_of(call.func)], 0)
        if path is None:
            script.say(call, f"{script.text(call.func)}: which of its arguments is the path is not known here; "
                       "not changed")
        elif only_reads(script, call):
            script.wrap(path, "stoker.moved(", f", {literal(places)})")
            script.say(call, f"{script.text(call.func)} opens data that has moved at its new place")
            script.needs.add("import stoker")
    for call in path_reads(script):
        script.wrap(call.func.value, "stoker.files.path(", f", moved={literal(places)})")
        script.say(call, f"{call.func.attr}() of a pathlib.Path opens data that has moved at its new place")
        script.needs.add("import stoker.files")
    for node in passed_on(script):
        script.say(node, f"{script.text(node)} is passed on, and not changed: see where its paths come from")


def passed_on(script):
    """Names of calls that open data, where they are given to something else, which calls them."""
    called = {id(n.func) for n in ast.walk(script.tree) if isinstance(n, ast.Call)}
    inner = {id(n.value) for n in ast.walk(script.tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(script.tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in called | inner:
            if isinstance(node.ctx, ast.Load) and script.name_of(node) in OPENERS:
                yield node


def handles_of_classes(script):
    """(class, call) of each file that an object opens when it is made, to keep it open."""
    for node in ast.walk(script.tree):
        for method in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                kept = [n.value for n in ast.walk(method) if isinstance(n, ast.Assign)]
                yield from ((node, c) for value in kept for c in ast.walk(value)
                            if isinstance(c, ast.Call) and script.name_of(c.func) == "h5py.File")


def set_options(script, options):
    """num_workers and the like of every DataLoader. Workers stay from one epoch to the next: to start them takes
    longer than to read many a dataset."""
    if options.get("num_workers", "0") != "0":
        options = {**options, "persistent_workers": "True"}
    for call in script.calls({LOADER}):
        script.set_arguments(call, LOADER_PLACES, options)
        script.say(call, "DataLoader: " + ", ".join(f"{n}={v}" for n, v in options.items()))
    for node, call in handles_of_classes(script) if options.get("num_workers", "0") != "0" else []:
        keep_from_sharing(script, node, call)


def keep_from_sharing(script, node, call):
    """HDF5 that is open when worker processes are forked may give them wrong data. stoker's file is opened again in
    each; packed={} says that nothing was packed, so h5py reads it."""
    if script.has_edited(call.func):
        return  # it is stoker's already
    if not only_reads(script, call) or any(k.arg is None for k in call.keywords):
        script.say(call, f"{node.name} opens an HDF5 file when it is made, and worker processes would share it: open "
                   "it in __getitem__, once per process")
        return
    script.replace(call.func, "stoker.arrays.File")
    script.add_keywords(call, {"packed": "{}"})
    script.say(call, f"{node.name} opens an HDF5 file when it is made: each worker process opens it for itself")
    script.needs.add("import stoker.arrays")


def add_imports(script):
    """Before the first import that may stand anywhere: behind the docstring and __future__."""
    body = script.tree.body
    at = next((n for n in body if isinstance(n, (ast.Import, ast.ImportFrom))
               and getattr(n, "module", None) != "__future__"), body[0] if body else None)
    place = script.lines[at.lineno - 1] if at else 0
    end = "\r\n" if b"\r\n" in script.source else "\n"
    for line in sorted(script.needs):
        script.insert(place, line + end, -len(script.source) - 1)


def edit(script, packed=None, moved=None, loader=False, options=None, feeds=False):
    """Makes the edits. feeds: some file of the program gets its data through stoker."""
    if packed or loader:
        stand_in(script, packed)
    if feeds:
        read_by_threads(script, "import stoker.torch" in script.needs)
    if moved:
        read_moved(script, moved)
    if options:
        set_options(script, options)
    if script.edits:
        add_imports(script)


def is_fed(source, packed=None, loader=False, **_):
    """Whether a file of the program gets its data through stoker."""
    script = Script(source)
    if packed or loader:
        stand_in(script, packed)
    return bool(script.edits)


def patched(source, **what):
    """(new source, what was changed) of a script of one file. Raises SyntaxError."""
    script = Script(source)
    edit(script, **what, feeds=is_fed(source, **what))
    return script.edited(), script.said


# ---- the files of a program ----------------------------------------------------------------------

MODULES_MAX = 200
NAMES_MAX = 1000  # files of a folder that are looked at


def imports_of(tree):
    """(level, "a.b") of every module that the source may import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
            yield from ((node.level, f"{node.module or ''}.{a.name}".lstrip(".")) for a in node.names)


def file_of(folder, name):
    """The source of module `name` below folder, or None."""
    place = folder.joinpath(*name.split(".")) if name else folder
    tries = (place.with_suffix(".py") if name else None, place / "__init__.py")
    return next((t for t in tries if t and t.is_file()), None)


def own_files(script, root):
    """The script, and the modules of its own folder that it imports, as they are met."""
    found = [script]
    for path in found:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            if path == script:
                raise
            continue
        for level, name in imports_of(tree):
            folder = path.parents[level - 1] if level else root
            module = file_of(folder, name)
            if module and module not in found and len(found) < MODULES_MAX:
                found.append(module)
    return found


def module_file(name):
    """(source, folder of its package) of what `python -m NAME` runs; nothing is imported."""
    for entry in ["", *sys.path]:
        folder = pathlib.Path(entry or ".").resolve()
        for tried in (f"{name}.__main__", name):
            found = file_of(folder, tried)
            if found:
                return found, folder
    raise FileNotFoundError(f"no module {name} in this folder, nor where Python looks for modules")


# ---- the diff ------------------------------------------------------------------------------------

def lines_of(text):
    """As patch(1) sees them: other characters that end a line for Python do not."""
    return re.findall(r"[^\n]*\n|[^\n]+", text.decode("utf-8", "surrogateescape"))


def diff(name, before, after):
    made = difflib.unified_diff(lines_of(before), lines_of(after), fromfile=name, tofile=name)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in made)


def parsed(path, main):
    """The source and its Script; None and why, if it is another file than the program's own and no Python."""
    source = path.read_bytes()
    try:
        return source, Script(source), None
    except (SyntaxError, ValueError) as wrong:
        if path == main:
            raise
        return source, None, f"not looked at: {wrong}"


def unfed(files):
    """What is missing for the loader's threads, if anything."""
    if any(script and any(script.calls({LOADER, RECORDS})) for _, _, script, _ in files):
        return []
    return ["no torch DataLoader: data comes from stoker, but nothing is read ahead; a loop over stoker.Loader is faster"]


def diff_of_all(main, root, **what):
    """(the diff, what it changes) of a script and its own modules, by names below root."""
    files = [(path, *parsed(path, main)) for path in own_files(main, root)]
    feeds = any(is_fed(source, **what) for _, source, script, _ in files if script)
    text, said = "", unfed(files) if feeds else []
    for path, source, script, why in files:
        if script:
            edit(script, **what, feeds=feeds)
            text += diff(str(path.relative_to(root)), source, script.edited())
        said += [f"{path.relative_to(root)}: {line}" for line in (script.said if script else [why])]
    return text, said


def pair(text):
    """("OLD", "NEW") of OLD=NEW; a name may contain "=": then the file that is there decides."""
    words = text.split("=")
    pairs = [("=".join(words[:i]), "=".join(words[i:])) for i in range(1, len(words))]
    pairs = [p for p in pairs if all(p)]
    if not pairs:
        raise argparse.ArgumentTypeError(f"{text!r}: OLD=NEW is needed")
    return next((p for p in pairs if os.path.lexists(p[0])), pairs[0])


def options_of(argv):
    p = argparse.ArgumentParser(prog="python -m stoker.patch", description=__doc__.splitlines()[0])
    p.add_argument("script", type=pathlib.Path)
    p.add_argument("--module", action="store_true", help="the script is a module, as after python -m")
    p.add_argument("--packed", type=pair, action="append", default=[], metavar="FOLDER=DATASET",
                   help="data of FOLDER, or of a file, is read from the packed DATASET")
    p.add_argument("--moved", type=pair, action="append", default=[], metavar="OLD=NEW",
                   help="data at OLD, or below it, is read at NEW")
    p.add_argument("--loader", action="store_true", help="pictures and arrays are read by stoker where they are")
    p.add_argument("--set", type=pair, action="append", default=[], metavar="NAME=VALUE",
                   help="an argument of every DataLoader: num_workers=8")
    p.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="a new file for the patch")
    p.add_argument("--beside", action="store_true",
                   help="write it to a new file beside the script; print its name and folder, then the patch")
    return p.parse_args(argv)


def write(path, text):
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as out:
        out.write(text)


def write_beside(script, text):
    """A new file: train.py.stoker.diff, train.py.stoker-2.diff, …"""
    for n in range(1, 1000):
        path = script.with_name(f"{script.name}.stoker{f'-{n}' if n > 1 else ''}.diff")
        try:
            write(path, text)
            return path
        except FileExistsError:
            continue
    raise FileExistsError(f"{script.parent} has too many patches of it")


def run(args):
    """(status, standard output, standard error)"""
    script, root = module_file(str(args.script)) if args.module else (args.script, args.script.parent)
    packed, moved = with_copies(args.packed, args.moved)
    text, said = diff_of_all(script, root, packed=packed, moved=moved, loader=args.loader, options=dict(args.set))
    if not text:
        return 1, "", [*said, f"{args.script}: no call that this patch could change, nor in the modules of its "
                       "folder: change it by hand, as `stoker advise` shows"]
    if args.output:
        write(args.output, text)
    if args.beside:
        text = f"{write_beside(script.resolve(), text)}\n{root.resolve()}\n{text}"
    return 0, "" if args.output else text, said


def main(argv=None):
    args = options_of(argv)
    try:
        status, text, said = run(args)
    except (OSError, SyntaxError, ValueError) as wrong:
        print(f"stoker.patch: {args.script}: {wrong}", file=sys.stderr)
        return 2
    for line in said:
        print(line, file=sys.stderr)
    sys.stdout.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
