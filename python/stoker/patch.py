"""Changes a training script so that it reads data that was packed or moved, as a patch beside it.

    python -m stoker.patch train.py --packed /data/train=/data/train-packed -o train.py.diff
    python -m stoker.patch train.py --moved /lustre/d.h5=/tmp/d.h5 --set num_workers=8

It prints a unified diff, for `patch train.py train.py.diff`, and never changes the script. It knows
calls by the names that the script imports: torchvision's ImageFolder, torch's DataLoader, and what
opens files (h5py.File, numpy.load, tf.data, …). Modules that the script imports from its own folder
are looked at as well: the diff may be for several files. Exit status: 0 with a patch, 1 if it found
nothing to change, 2 for wrong usage.
"""

import argparse
import ast
import difflib
import pathlib
import sys

PICTURES, LOADER = "torchvision.datasets.ImageFolder", "torch.utils.data.DataLoader"
# Calls whose first argument is a path, or several, of data.
OPENERS = {PICTURES, "torchvision.datasets.DatasetFolder", "h5py.File", "numpy.load", "numpy.memmap",
           "numpy.fromfile", "numpy.loadtxt", "numpy.genfromtxt", "pandas.read_csv", "pandas.read_parquet",
           "pandas.read_hdf", "tensorflow.data.TFRecordDataset", "tensorflow.data.TextLineDataset",
           "tensorflow.data.FixedLengthRecordDataset", "tensorflow.data.Dataset.list_files",
           "tensorflow.keras.utils.image_dataset_from_directory", "lmdb.open", "tarfile.open",
           "PIL.Image.open", "cv2.imread", "zarr.open"}
# The same thing under its other names.
OTHER_NAMES = {"torchvision.datasets.folder.ImageFolder": PICTURES,
               "torch.utils.data.dataloader.DataLoader": LOADER,
               "tensorflow.data.experimental.TFRecordDataset": "tensorflow.data.TFRecordDataset"}


class Script:
    """The source, the names it imports, and the edits: (begin, end, text) in bytes."""

    def __init__(self, source):
        self.source = source
        self.tree = ast.parse(source)
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.imported, self.edits, self.said, self.needs = {}, [], [], set()
        for node in ast.walk(self.tree):
            self._note_import(node)

    def _note_import(self, node):
        if isinstance(node, ast.Import):
            for a in node.names:
                self.imported[a.asname or a.name.split(".")[0]] = a.name if a.asname else a.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for a in node.names:
                self.imported[a.asname or a.name] = f"{node.module}.{a.name}"

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
            if isinstance(node, ast.Call) and self.name_of(node.func) in names:
                yield node

    def span(self, node):
        return (self.lines[node.lineno - 1] + node.col_offset,
                self.lines[node.end_lineno - 1] + node.end_col_offset)

    def text(self, node):
        begin, end = self.span(node)
        return self.source[begin:end].decode()

    def replace(self, node, text):
        self.edits.append((*self.span(node), text))

    def insert(self, at, text):
        self.edits.append((at, at, text))

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
        self.said.append(f"line {node.lineno}: {text}")

    def add_keyword(self, call, name, text):
        """name=text in a call, behind its last argument."""
        old = next((k for k in call.keywords if k.arg == name), None)
        if old is not None:
            return self.replace(old.value, text)
        if any(k.arg is None for k in call.keywords):
            self.say(call, f"{name}= may also be in the ** of this call: look at it")
        arguments = [*call.args, *(k.value for k in call.keywords)]
        last = self._after(max((self.span(n)[1] for n in arguments), default=0), call)
        self.insert(last, f"{', ' if arguments else ''}{name}={text}")

    def edited(self):
        made = self.source
        for begin, end, text in sorted(self.edits, reverse=True):
            made = made[:begin] + text.encode() + made[end:]
        return made


def literal(places):
    return "{" + ", ".join(f"{old!r}: {new!r}" for old, new in places.items()) + "}"


def read_packed(script, places):
    """ImageFolder and DataLoader are stoker's; they read the packed dataset of a folder that has one."""
    found = list(script.calls({PICTURES}))
    for call in found:
        script.replace(call.func, "stoker.torch.ImageFolder")
        if places:
            script.add_keyword(call, "packed", literal(places))
        script.say(call, f"ImageFolder {'reads the packed dataset' if places else 'is that of stoker'}")
        for k in call.keywords:
            if k.arg in ("loader", "is_valid_file", "allow_empty"):
                script.say(call, f"{k.arg}= is not an argument of stoker's: look at it")
    for call in script.calls({LOADER}) if found else []:
        script.replace(call.func, "stoker.torch.DataLoader")
        script.say(call, "threads of stoker read and decode instead of worker processes")
    if found:
        script.needs.add("import stoker.torch")


def read_moved(script, places):
    """Every path of data that is opened goes through stoker.moved()."""
    for call in script.calls(OPENERS):
        if not call.args or isinstance(call.args[0], ast.Starred):
            script.say(call, f"{script.text(call.func)}: its path is not the first argument; not changed")
            continue
        begin, end = script.span(call.args[0])
        script.insert(begin, "stoker.moved(")
        script.insert(end, f", {literal(places)})")
        script.say(call, f"{script.text(call.func)} opens the data at its new place")
        script.needs.add("import stoker")


def set_options(script, options):
    """num_workers and the like of every DataLoader."""
    for call in script.calls({LOADER}):
        for name, value in options.items():
            script.add_keyword(call, name, value)
        script.say(call, "DataLoader: " + ", ".join(f"{n}={v}" for n, v in options.items()))


def add_imports(script):
    """Before the first import that may stand anywhere: behind the docstring and __future__."""
    body = script.tree.body
    at = next((n for n in body if isinstance(n, (ast.Import, ast.ImportFrom))
               and getattr(n, "module", None) != "__future__"), body[0] if body else None)
    place = script.lines[at.lineno - 1] if at else 0
    for line in sorted(script.needs):
        script.insert(place, line + "\n")


def patched(source, packed=None, moved=None, loader=False, options=None):
    """(new source, what was changed) of a script. Raises SyntaxError."""
    script = Script(source)
    if packed or loader:
        read_packed(script, packed)
    if moved:
        read_moved(script, moved)
    if options:
        set_options(script, options)
    if script.edits:
        add_imports(script)
    return script.edited(), script.said


# ---- the files of a program ----------------------------------------------------------------------

MODULES_MAX = 200


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

def diff(name, before, after):
    lines = [text.decode("utf-8", "surrogateescape").splitlines(keepends=True) for text in (before, after)]
    made = difflib.unified_diff(*lines, fromfile=name, tofile=name)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in made)


def diff_of_all(script, root, **what):
    """(the diff, what it changes) of a script and its own modules, by names below root."""
    text, said = "", []
    for path in own_files(script, root):
        source = path.read_bytes()
        try:
            made, lines = patched(source, **what)
        except (SyntaxError, ValueError) as wrong:
            if path == script:
                raise
            made, lines = source, [f"not looked at: {wrong}"]
        text += diff(str(path.relative_to(root)), source, made)
        said += [f"{path.relative_to(root)}: {line}" for line in lines]
    return text, said


def pair(text):
    """("OLD", "NEW") of OLD=NEW; a name may contain "=": then the file that is there decides."""
    words = text.split("=")
    pairs = [("=".join(words[:i]), "=".join(words[i:])) for i in range(1, len(words))]
    pairs = [p for p in pairs if all(p)]
    if not pairs:
        raise argparse.ArgumentTypeError(f"{text!r}: OLD=NEW is needed")
    return next((p for p in pairs if pathlib.Path(p[0]).exists()), pairs[0])


def options_of(argv):
    p = argparse.ArgumentParser(prog="python -m stoker.patch", description=__doc__.splitlines()[0])
    p.add_argument("script", type=pathlib.Path)
    p.add_argument("--module", action="store_true", help="the script is a module, as after python -m")
    p.add_argument("--packed", type=pair, action="append", default=[], metavar="FOLDER=DATASET",
                   help="pictures of FOLDER are read from the packed DATASET")
    p.add_argument("--moved", type=pair, action="append", default=[], metavar="OLD=NEW",
                   help="data at OLD, or below it, is read at NEW")
    p.add_argument("--loader", action="store_true", help="pictures are read by stoker where they are")
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
    text, said = diff_of_all(script, root, packed=dict(args.packed), moved=dict(args.moved),
                             loader=args.loader, options=dict(args.set))
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
