"""stoker.patch and what it puts into scripts: the same samples from the packed data, the script untouched."""

import os
import pickle
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="python3-torch is not installed")

from conftest import PATIENCE_S, run_stoker  # noqa: E402
from pythonlib import environment, python, stoker  # noqa: E402

import numpy as np  # noqa: E402
import stoker.arrays  # noqa: E402
import stoker.patch  # noqa: E402
import stoker.torch  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")  # importing it takes a while
SCRIPT = '''"""Trains."""
from __future__ import annotations
import os, sys
import torch
from torchvision import datasets, transforms as T

train = datasets.ImageFolder(os.path.join(sys.argv[1], "train"), T.Compose([
    T.Resize(32), T.CenterCrop(24), T.ToTensor(), T.Normalize((.4, .5, .6), (.2, .3, .4)),
]))
batches = torch.utils.data.DataLoader(
    train, batch_size=(7),  # not 8 :)
    num_workers=0,
)
print(type(batches).__module__)
print(sorted((y.item(), round(x.double().sum().item(), 6)) for xs, ys in batches for x, y in zip(xs, ys)))
'''


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder of pictures of all shapes, and the same packed in another order."""
    image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    root = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(1)
    for i in range(20):
        folder = root / "train" / f"class{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 255, (40 + i, 70 - i, 3)).astype("uint8")
        made = image.fromarray(pixels if i % 5 else pixels[:, :, 0])
        made.save(folder / (f"{i}.png" if i % 4 == 0 else f"{i}.jpg"))
    run_stoker("pack", root / "train", root / "packed", "--shuffle", 3, "--quiet")
    return root


def patch(*args):
    """The patch command: (status, standard output, standard error)."""
    done = subprocess.run([sys.executable, "-m", "stoker.patch", *map(str, args)], env=environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


def patched(text, **what):
    made, said = stoker.patch.patched(text.encode(), **what)
    compile(made, "patched", "exec")
    return made.decode(), said


def test_a_patched_script_gives_the_same_samples(pictures, tmp_path):
    """A user applies the patch with patch(1) and gets the same pictures and labels, from stoker."""
    pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    before = python(str(script), pictures).splitlines()
    where = f"{pictures}/train={pictures}/packed"
    status, out, said = patch(script, "--packed", where, "-o", f"{script}.diff")
    assert (status, out, script.read_text()) == (0, "", SCRIPT), said
    subprocess.run(["patch", "-s", script, f"{script}.diff"], check=True)
    after = python(str(script), pictures).splitlines()
    assert before[0].startswith("torch.") and len(before[1]) > 200
    assert after == ["stoker._dataloader", before[1]]


def test_a_patch_is_never_written_over_anything(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    status, _, said = patch(script, "--packed", "a=b", "-o", script)
    assert status == 2 and "exists" in said and script.read_text() == SCRIPT


@pytest.mark.parametrize("text, status, said", [
    ("print('nothing here')\n", 1, "no call"),
    ("def broken(:\n", 2, "invalid syntax"),
    ("class ImageFolder: pass\nImageFolder('x')\n", 1, "no call")])
def test_what_it_does_not_understand_is_said(tmp_path, text, status, said):
    script = tmp_path / "x.py"
    script.write_text(text)
    assert patch(script, "--packed", "a=b")[:2] == (status, "")
    assert said in patch(script, "--packed", "a=b")[2]


def test_modules_of_the_program(tmp_path):
    """The Dataset is rarely in the script itself; what is installed elsewhere is left alone."""
    package = tmp_path / "net"
    (package / "data").mkdir(parents=True)
    (package / "__main__.py").write_text("from .data import sets\nimport json\n")
    (package / "__init__.py").write_text("raise SystemExit('a patch imports nothing')\n")
    (package / "data/__init__.py").write_text("")
    (package / "data/sets.py").write_text("import h5py\nf = h5py.File('/old/x=y.h5')\n")
    (package / "unused.py").write_text("import h5py\nf = h5py.File('/old/x')\n")
    done = subprocess.run([sys.executable, "-m", "stoker.patch", "net", "--module", "--beside", "--moved", "/old=/new=1"],
                          env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    path, folder, *text = done.stdout.splitlines()
    assert (path, folder) == (str(package / "__main__.py.stoker.diff"), str(tmp_path)), done.stderr
    assert "--- net/data/sets.py" in text and not any("unused" in line for line in text)
    assert any("{'/old': '/new=1'}" in line for line in text)
    assert "net/data/sets.py: line 2: h5py.File opens" in done.stderr


def test_stokers_own_loader_where_the_pictures_are():
    made, _ = patched("import torchvision\nx = torchvision.datasets.ImageFolder(root)\n", loader=True)
    assert made.endswith("x = stoker.torch.ImageFolder(root)\n")


def test_names_by_any_import():
    """However the script names ImageFolder and DataLoader; other people's classes stay."""
    for imports, name in (("import torchvision", "torchvision.datasets.ImageFolder"),
                          ("import torchvision.datasets as d", "d.ImageFolder"),
                          ("from torchvision.datasets import ImageFolder as F", "F"),
                          ("from torchvision.datasets.folder import ImageFolder", "ImageFolder")):
        made, said = patched(f"{imports}\nx = {name}(root)\n", packed={"a": "b"})
        assert "x = stoker.torch.ImageFolder(root, packed={'a': 'b'})" in made and said
        assert made.startswith("import stoker.torch\n")
    own = "from mine import ImageFolder\nfrom torch.utils.data import DataLoader\nDataLoader(ImageFolder(1))\n"
    assert patched(own, packed={"a": "b"})[0] == own


def test_arguments_in_any_shape():
    """Parentheses, comments, ** and trailing commas: the result is still Python."""
    head = "from torch.utils.data import DataLoader\n"
    new = "num_workers=8, persistent_workers=True"
    for call, want in (("DataLoader(d)", f"DataLoader(d, {new})"),
                       ("DataLoader((d))", f"DataLoader((d), {new})"),
                       ("DataLoader(d,)", f"DataLoader(d, {new},)"),
                       ("DataLoader(num_workers=(1 + 1))", "DataLoader(num_workers=(8), persistent_workers=True)"),
                       ("DataLoader(d, persistent_workers=a)", "DataLoader(d, persistent_workers=True, num_workers=8)"),
                       ("DataLoader(d, 1, True, None, None, 2)", "DataLoader(d, 1, True, None, None, 8, persistent_workers=True)"),
                       ("DataLoader()", f"DataLoader({new})"),
                       ("DataLoader(d,  # all )\n  )", f"DataLoader(d, {new},  # all )\n  )")):
        made, _ = patched(f"{head}{call}\n", options={"num_workers": "8"})
        assert made == f"{head}{want}\n"


def test_arguments_in_a_dict():
    """DataLoader(d, **options), as in PyTorch's examples: an argument that is given twice is an error."""
    head = "from torch.utils.data import DataLoader\n"
    made, said = patched(f"{head}made = DataLoader([1, 2], **o or p)\n", options={"num_workers": "2"})
    assert not any("look at it" in line for line in said)
    for given in ({"num_workers": 1}, {"persistent_workers": False}):
        names = {"o": {}, "p": given}
        exec(made, names)
        assert names["made"].num_workers == 2 and names["made"].persistent_workers
    assert "look at it" in patched(f"{head}DataLoader(d, **o, **p)\n", options={"num_workers": "2"})[1][0]


def test_moved_data(tmp_path):
    """Files are opened at their new place, others where they were; names with quotes and no ASCII stay names."""
    odd = "it's \"ü\"/d"
    text = ("# -*- coding: utf-8 -*-\nimport numpy as np\nü = 'ö'; a = np.load(ü + np.load(x)[0])  # ä\n"
            "import tensorflow as tf\nd = tf.data.TFRecordDataset([p, q])\n")
    made, said = patched(text, moved={odd: "/new"})
    assert made.count("stoker.moved(") == 3 and len(said) == 2
    assert repr(odd) in made
    new = str(tmp_path)
    assert stoker.moved("/a/b/c", {"/a/b": new}) == f"{new}/c" and stoker.moved("/a/b", {"/a/b/": new}) == new
    assert stoker.moved("/a/bc", {"/a/b": new}) == "/a/bc" and stoker.moved(3, {"/a": new}) == 3
    assert stoker.moved(["/a/x", "/c"], {"/a": new}) == [f"{new}/x", "/c"]


def test_a_node_without_the_copy(tmp_path):
    """The next job of a patched script, on another node, reads the data where it was, and says so, once."""
    with pytest.warns(UserWarning, match="is not there: data is read from /a, where it was") as said:
        assert [stoker.moved(f"/a/{i}", {"/a": tmp_path / "gone"}) for i in range(3)] == ["/a/0", "/a/1", "/a/2"]
    assert len(said) == 1


def test_pictures_as_torchvision_gives_them(pictures):
    """Classes, labels, names and pixels; decoded by threads if it can, else by the transform."""
    vision = pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    T = vision.transforms
    for transform in (T.Compose([T.Resize((20, 30)), T.ToTensor()]),
                      T.Compose([T.Resize(32), T.CenterCrop((24, 20)), T.Grayscale(), T.ToTensor()])):
        theirs = vision.datasets.ImageFolder(pictures / "train", transform)
        ours = stoker.torch.ImageFolder(pictures / "train", transform)
        assert (ours.classes, ours.class_to_idx, ours.targets) == \
            (theirs.classes, theirs.class_to_idx, theirs.targets)
        assert ours.samples == theirs.samples and len(ours) == len(theirs)
        assert all(torch.equal(a[0], b[0]) and a[1] == b[1] for a, b in zip(theirs, ours))
        made = stoker.torch.DataLoader(ours, batch_size=6)
        assert isinstance(made, stoker.torch.Loader) and len(made) == 4
        for (x, y), (u, v) in zip(torch.utils.data.DataLoader(theirs, batch_size=6), made):
            assert torch.equal(x, u) and torch.equal(y, v)


def seen_in(loader):
    return [(x.double().sum().item(), int(y)) for xs, ys in loader for x, y in zip(xs, ys)]


def test_a_number_is_the_picture_that_it_was(pictures):
    """A split by a seed, or indices in a file: what was for validation before the patch is never trained with after it,
    although the packed dataset is in another order. Threads decode a part, too."""
    vision = pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    split, data = torch.utils.data.random_split, torch.utils.data
    transform = vision.transforms.Compose([vision.transforms.Resize((24, 24)), vision.transforms.ToTensor()])
    theirs = vision.datasets.ImageFolder(pictures / "train", transform)
    ours = stoker.torch.ImageFolder(pictures / "train", transform, packed={pictures / "train": pictures / "packed"})
    assert ours.samples == theirs.samples and ours.targets == theirs.targets
    ours.targets = torch.tensor(ours.targets)  # as programs do that index them
    parts = [split(d, [14, 6], torch.Generator().manual_seed(1)) for d in (theirs, ours)]
    parts += [[data.Subset(part[0], range(0, 14, 3)) for part in parts]]
    for their, our in ((parts[0][0], parts[1][0]), (parts[0][1], parts[1][1]), parts[2]):
        before = seen_in(data.DataLoader(their, 4))
        made = stoker.torch.DataLoader(our, 4)
        assert isinstance(made, stoker.torch.Loader) and seen_in(made) == before
        assert sorted(seen_in(stoker.torch.DataLoader(our, 4, shuffle=True))) == sorted(before)


class Transformed(torch.utils.data.Dataset):
    """As many write it: a part of a folder with a transform of its own."""

    def __init__(self, part, transform):
        self.part, self.transform = part, transform

    def __len__(self):
        return len(self.part)

    def __getitem__(self, i):
        picture, label = self.part[i]
        return self.transform(picture), label


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_around_a_part_of_a_folder(pictures, workers):
    """The program's own class around a split of an ImageFolder: stoker reads ahead for it, the same pictures."""
    vision = pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    transform = vision.transforms.Compose([vision.transforms.Resize((24, 24)), vision.transforms.ToTensor()])
    made = []
    for folder in (vision.datasets.ImageFolder(pictures / "train"),
                   stoker.torch.ImageFolder(pictures / "train", packed={pictures / "train": pictures / "packed"})):
        part, _ = torch.utils.data.random_split(folder, [14, 6], torch.Generator().manual_seed(1))
        made.append(Transformed(part, transform))
    before = seen_in(torch.utils.data.DataLoader(made[0], 4))
    ours = stoker.torch.DataLoader(made[1], 4, num_workers=workers)
    assert isinstance(ours, stoker.torch.Loader) and seen_in(ours) == before
    assert sorted(seen_in(stoker.torch.DataLoader(made[1], 4, True, num_workers=workers))) == sorted(before)


def test_folders_as_people_keep_them(pictures, tmp_path):
    """Links to other folders, nested ones, other files, pictures of other types: what torchvision lists, as it does."""
    vision = pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    from PIL import Image
    root, packed = tmp_path / "d", tmp_path / "p"
    transform = vision.transforms.Compose([vision.transforms.Resize((8, 8)), vision.transforms.ToTensor()])

    def picture(name):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 9), (len(name) * 9, 3, 70)).save(root / name)

    def check(*names, link=None):
        for name in names:
            picture(name)
        if link:
            (root / link).symlink_to(pictures / "train/class1")
        run_stoker("pack", root, packed, "--force", "--shuffle", 3, "--quiet")
        theirs = vision.datasets.ImageFolder(root, transform)
        for ours in (stoker.torch.ImageFolder(root, transform), stoker.torch.ImageFolder(root, transform, packed={root: packed})):
            assert (ours.classes, ours.samples) == (theirs.classes, theirs.samples)
            assert seen_in(stoker.torch.DataLoader(ours, 3)) == seen_in(torch.utils.data.DataLoader(theirs, 3))

    check("a/1.png", "a/Z/2.png", "a/b.png", "c/3.jpg")
    (root / "a/1.json").write_text("{}")
    check()
    check("c/4.bmp")
    with pytest.warns(UserWarning, match="does not have .*/b"):
        check(link="b")
    with pytest.warns(UserWarning, match="does not have .*hidden/1.png"):
        check(".hidden/1.png")


def test_a_spawned_process(pictures):
    """A folder that is sent to another process is one there, whatever that process has imported."""
    code = "import pickle, sys\nprint(len(pickle.load(sys.stdin.buffer)))\n"
    sent = pickle.dumps(stoker.torch.ImageFolder(pictures / "train"))
    done = subprocess.run([sys.executable, "-c", code], input=sent, env=environment(), capture_output=True, timeout=PATIENCE_S)
    assert done.stdout == b"20\n", done.stderr.decode()


def test_transforms_as_settings():
    """Only what the decoder does in the same way is left to it."""
    vision = pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    from stoker._pictures import Unlike, decode_of
    T = vision.transforms
    usual = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()]
    assert decode_of(T.Compose(usual)).startswith("image:224x224,crop=random,flip")
    assert "mean=0.5:0.5:0.5" in decode_of(T.Compose([*usual, T.Normalize([.5] * 3, [.5] * 3)]))
    for other in ([T.ToTensor()], [T.Resize(256), *usual], [T.RandomHorizontalFlip(0.3), *usual],
                  [*usual, T.RandomErasing()], [T.CenterCrop(24), T.ToTensor()], usual[:2],
                  [T.RandomResizedCrop(224, interpolation=T.InterpolationMode.BICUBIC), T.ToTensor()],
                  [T.Resize(32), T.CenterCrop(64), T.Pad(3), T.ToTensor()], [lambda x: x, *usual],
                  [T.ToTensor(), T.Resize((32, 32))], [T.ToTensor(), T.RandomResizedCrop(32)],
                  [T.RandomApply([T.RandomHorizontalFlip()], 0.1), *usual], [T.Resize(32), T.CenterCrop(64), T.ToTensor()],
                  [*usual, T.Normalize([.5] * 3, [.5] * 3), T.Normalize([.5] * 3, [.5] * 3)]):
        with pytest.raises(Unlike):
            decode_of(T.Compose(other))
    for one in (0.5, (0.5,), torch.tensor(0.5)):
        assert "mean=0.5,std=0.5" in decode_of(T.Compose([*usual, T.Normalize(one, one)]))


def test_other_datasets_keep_torch(pictures):
    """A DataLoader over something else, or with a sampler of its own, is torch's."""
    data = torch.utils.data.TensorDataset(torch.arange(10))
    assert isinstance(stoker.torch.DataLoader(data, batch_size=5), torch.utils.data.DataLoader)
    ours = stoker.torch.ImageFolder(pictures / "train", target_transform=lambda y: y + 1)
    some = torch.utils.data.SubsetRandomSampler([1, 2])
    with pytest.warns(UserWarning, match="nothing is read ahead by stoker: the order of its SubsetRandomSampler is not"):
        assert isinstance(stoker.torch.DataLoader(ours, sampler=some), torch.utils.data.DataLoader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no data of stoker
        stoker.torch.DataLoader(data, sampler=some)
    assert ours[0][1] == 1


def patch_and_read(tmp_path, source, *args):
    """The bytes of a script after `patch` has applied its diff; what was said."""
    script = tmp_path / "train.py"
    script.write_bytes(source)
    status, _, said = patch(script, *args, "-o", f"{script}.diff")
    assert status == 0, said
    subprocess.run(["patch", "-s", script, f"{script}.diff"], check=True)
    script.with_suffix(".py.diff").unlink()
    return script.read_bytes()


@pytest.mark.parametrize("head, end", [
    (b"\xef\xbb\xbfimport numpy as np\n", b"\n"), (b"# coding: latin-1\nimport numpy as np\nx = '\xe9\xe9'\n", b"\n"),
    (b"import numpy as np\r\n", b"\r\n"), (b"import numpy as np\n\x0c\nx = 'a\x0cb\xc2\x85c\xe2\x80\xa8'\n", b"\n")])
def test_scripts_as_editors_write_them(tmp_path, head, end):
    """A byte order mark, another encoding, lines as on Windows, form feeds: all else stays to the byte."""
    line = b"y = '\xe9', np.load(p)" if b"latin" in head else b"y = '\xc3\xa9', np.load(p)"
    made = patch_and_read(tmp_path, head + line + end, "--moved", "/a=/b")
    compile(made, "patched", "exec")
    mark = head[:3] if head[0] == 0xef else b""
    new = head[len(mark):].replace(b"import numpy", b"import stoker" + end + b"import numpy")
    assert made == mark + new + line.replace(b"np.load(p)", b"np.load(stoker.moved(p, {'/a': '/b'}))") + end


def test_only_what_reads_is_moved():
    """A log or a cache that is written to the copy is lost with it. The path may have its name."""
    head = "import h5py, numpy as np\nfrom gzip import open as gz\n"
    for call, want in (("h5py.File(mode='r', name=p)", True), ("h5py.File(p, 'w')", False), ("open(p)", True),
                       ("h5py.File(p, 'r+')", False), ("open(p, 'ab')", False), ("gz(p, mode='rt')", True),
                       ("np.memmap(p, 'u2', 'r')", True), ("np.memmap(p, 'u2')", False), ("np.load(*p)", False),
                       ("open(p, m)", False), ("h5py.File(p, **o)", True)):
        made, said = patched(f"{head}x = {call}\n", moved={"/a": "/b"})
        assert ("stoker.moved(p, " in made) == want, call
        assert said or call in ("h5py.File(p, 'w')", "open(p, 'ab')")
    assert "moved(p" in patched("from h5py import *\nx = File(p)\n", moved={"/a": "/b"})[0]
    made, said = patched("import numpy as np\nx = f'{np.load(p)} {np.load(q)}'\n", moved={"/a": "/b"})
    assert "moved" not in made and "in a formatted string: not changed" in said[0]


def test_a_folder_with_code_of_its_own():
    """What stoker's ImageFolder cannot do stays torchvision's: the script runs."""
    head = "from torchvision.datasets import ImageFolder\nfrom torch.utils.data import DataLoader\n"
    for call in ("ImageFolder(p, loader=l)", "ImageFolder(p, t, None, l)", "ImageFolder(p, is_valid_file=f)"):
        made, said = patched(f"{head}d = DataLoader({call})\n", packed={"/a": "/b"})
        assert made == f"{head}d = DataLoader({call})\n" and "not changed" in said[0]


def test_a_folder_whose_samples_the_script_changes():
    """The first hundred, or other labels: torchvision reads by that list, and stoker's ImageFolder does not."""
    head = "from torchvision.datasets import ImageFolder\nd = ImageFolder(p)\n"
    for line in ("d.samples = d.samples[:100]", "d.imgs.sort()", "d.samples[0] = q, 1", "del d.samples[5:]", "d.samples += x"):
        made, said = patched(f"{head}{line}\n", packed={"/a": "/b"})
        assert made == f"{head}{line}\n" and "line 2: ImageFolder, whose samples line 3 changes: not changed" in said[0]
    for line in ("n = len(d.samples)", "x = d.imgs[0]", "d.targets = y", "class A:\n    def f(self): self.samples = []"):
        assert "stoker.torch.ImageFolder" in patched(f"{head}{line}\n", packed={"/a": "/b"})[0]


def test_loaders_in_another_file_than_the_pictures(tmp_path):
    (tmp_path / "data.py").write_text("import torchvision.datasets as tvd\ndef get(p):\n    return tvd.ImageFolder(root=p)\n")
    (tmp_path / "main.py").write_text("from torch.utils.data import DataLoader as DL\nimport data\nDL(data.get('x'))\n")
    status, text, said = patch(tmp_path / "main.py", "--packed", "/a=/b")
    assert status == 0 and "+    return stoker.torch.ImageFolder(root=p, packed={'/a': '/b'})" in text
    assert "+stoker.torch.DataLoader(data.get('x'))" in text and "threads of stoker" in said


def test_a_file_that_worker_processes_would_share():
    """HDF5 that is opened before a fork gives wrong data, or hangs: each process opens it again."""
    text = ("import h5py\nfrom torch.utils.data import DataLoader\nclass A:\n    def __init__(self):\n        {}\n"
            "DataLoader(A())\n")
    for line, want in (("self.f = h5py.File(p)['x']", "self.f = stoker.arrays.File(p, packed={})['x']"),
                       ("with h5py.File(p) as f: self.n = len(f)", "with h5py.File(p) as f: self.n = len(f)")):
        made, _ = patched(text.format(line), options={"num_workers": "4"})
        assert want in made
    said = patched(text.format("self.f = h5py.File(p, 'r+')"), options={"num_workers": "4"})[1]
    assert any("worker processes would share it" in line for line in said)
    made, _ = patched(text.format("self.f = h5py.File(p)"), moved={"/a": "/b"}, options={"num_workers": "4"})
    assert "self.f = stoker.arrays.File(stoker.moved(p, {'/a': '/b'}), packed={})" in made
    made, _ = patched(text.format("self.f = h5py.File(p)"), packed={"/a.h5": "/b"}, options={"num_workers": "4"})
    assert "self.f = stoker.arrays.File(p, packed={'/a.h5': '/b'})" in made


def test_each_process_opens_its_own_file(tmp_path):
    """The file that a worker process reads has a place of its own: HDF5 without pread() moves it."""
    h5py = pytest.importorskip("h5py", reason="python3-h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(6.)
    rows = stoker.arrays.File(tmp_path / "a.h5", "r", packed={})["x"]

    def at(place, how=os.SEEK_SET):
        return os.lseek(rows._real.file.id.get_vfd_handle(), place, how)
    at(7)
    made = torch.utils.data.DataLoader(Called(lambda i: (rows[i], at(100 + i)), 6), batch_size=None, num_workers=2)
    assert [(float(x), int(place)) for x, place in made] == [(i, 100 + i) for i in range(6)]
    assert at(0, os.SEEK_CUR) == 7 and rows[3] == 3


class Called(torch.utils.data.Dataset):
    def __init__(self, read, n):
        self.read, self.n = read, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.read(i)


# ---- stoker.torch.DataLoader in the place of torch's ---------------------------------------------

def labels_of(loader):
    return [int(y) for _, ys in loader for y in ys]


@pytest.fixture
def folder(pictures):
    vision = pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    T = vision.transforms
    return stoker.torch.ImageFolder(pictures / "train", T.Compose([T.Resize((8, 8)), T.ToTensor()]))


def test_loader_has_the_names_of_torch(folder):
    """Programs ask the loader for its dataset, sizes and workers, and give arguments by place."""
    made = stoker.torch.DataLoader(folder, 6, False, None, None, 2)
    assert made.dataset is folder and len(made.dataset) == 20 and made.dataset.targets == labels_of(made)
    assert (made.batch_size, made.num_workers, made.drop_last, len(made)) == (6, 2, False, 4) and repr(made)
    with pytest.raises(TypeError):
        stoker.torch.DataLoader(folder, 6, batch_size=6)


def test_loader_has_what_programs_ask_it(folder):
    """`len(loader.sampler)`, as in many tutorials: a program that runs with torch's loader runs with ours."""
    given = {"batch_size": 6, "shuffle": True, "drop_last": True, "generator": torch.Generator()}
    ours, theirs = (kind(folder, **given) for kind in (stoker.torch.DataLoader, torch.utils.data.DataLoader))
    assert len(ours.sampler) == 20 and len(ours.batch_sampler) == len(theirs.batch_sampler) == 3
    for name in set(vars(theirs)) - {"_iterator"}:
        if not name.startswith("_"):
            assert type(getattr(ours, name)) is type(getattr(theirs, name)), name
    with pytest.raises(AttributeError):
        ours.no_such_name
    with pytest.raises(ValueError, match="mutually exclusive"):
        stoker.torch.DataLoader(folder, sampler=torch.utils.data.DistributedSampler(folder, 1, 0), shuffle=True)
    assert len(labels_of(pickle.loads(pickle.dumps(stoker.torch.DataLoader(folder, 6))))) == 20


@pytest.mark.parametrize("workers", [0, 2])
def test_loops_within_loops(folder, workers):
    """A loop in a loop over the same loader, or a batch to look at: neither ends the other, and all have every sample."""
    made = stoker.torch.DataLoader(folder, 6, shuffle=True, num_workers=workers)
    kept = iter(made)  # as in PyTorch's tutorial: it stays to the end of the program
    labels = [int(y) for y in next(kept)[1]]
    for _ in range(2):
        assert sorted(labels_of(made)) == folder.targets
    outer = []
    for _, ys in made:
        outer += ys.tolist()
        assert len(next(iter(made))[1]) == 6 and sorted(labels_of(made)) == folder.targets
    assert sorted(outer) == sorted(labels + labels_of(kept)) == folder.targets


def test_ranks_get_what_torch_gives_them(folder, monkeypatch):
    """As many samples per rank and epoch as with torch: none is lost, and repeats are those of the sampler."""
    for sampler in ({}, {"drop_last": True, "shuffle": False}, {"shuffle": False}):
        seen = []
        for mine in range(3):
            part = torch.utils.data.DistributedSampler(folder, num_replicas=3, rank=mine, **sampler)
            made = stoker.torch.DataLoader(folder, batch_size=4, sampler=part)
            theirs = torch.utils.data.DataLoader(folder, batch_size=4, sampler=part)
            assert len(made) == len(theirs)
            got = [int(i) for batch in made for i in batch.ids]
            assert len(got) == len(part)
            seen += got
        assert len(set(seen)) == (18 if sampler.get("drop_last") else 20)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert labels_of(stoker.torch.DataLoader(folder, batch_size=4)) == folder.targets  # validation
    assert len(labels_of(stoker.torch.DataLoader(folder, batch_size=4, shuffle=True))) == 10


def test_epochs_are_those_of_the_sampler(folder):
    """A job that resumes in epoch 5 gets the order of epoch 5."""
    def epochs(*numbers):
        part = torch.utils.data.DistributedSampler(folder, num_replicas=1, rank=0, seed=4)
        made = stoker.torch.DataLoader(folder, batch_size=20, sampler=part)
        for number in numbers:
            part.set_epoch(number)
            yield next(iter(made)).ids.tolist()
    first = list(epochs(0, 1, 2, 3))
    assert list(epochs(2, 3)) == first[2:] and first[0] != first[1]


def test_a_loader_for_each_epoch(folder):
    """Made anew in each epoch, a loader has another order, as torch's; by a seed, the same orders again."""
    def orders(**more):
        torch.manual_seed(5)
        return [next(iter(stoker.torch.DataLoader(folder, 20, shuffle=True, **more))).ids.tolist() for _ in range(3)]
    first = orders()
    assert first == orders() and first[0] != first[1] != first[2]
    assert orders(generator=torch.Generator().manual_seed(1)) == orders(generator=torch.Generator().manual_seed(1)) != first
    part = torch.utils.data.DistributedSampler(folder, num_replicas=1, rank=0, seed=4)
    seen = []
    for epoch in (0, 1, 0):
        part.set_epoch(epoch)
        seen.append(next(iter(stoker.torch.DataLoader(folder, 20, sampler=part))).ids.tolist())
    assert seen[0] == seen[2] != seen[1]


def test_what_only_torchvision_has(folder, pictures):
    """dataset.loader(path) and the like."""
    assert folder.loader(str(pictures / "train/class0/0.png")).size == (70, 40)
    assert folder.extensions and folder.find_classes(folder.root)[0] == folder.classes
    with pytest.raises(AttributeError):
        folder.no_such_name


def test_records_by_interleave(tmp_path):
    """tf.data's usual way: the names go through a graph, where nothing can be looked up any more."""
    text = ("import glob\nimport tensorflow as tf\nfiles = glob.glob('/a/*')\nd = tf.data.Dataset.from_tensor_slices(files)\n"
            "d = d.interleave(tf.data.TFRecordDataset, cycle_length=4)\ne = tf.data.Dataset.from_tensor_slices((x, y))\n")
    made, said = patched(text, moved={"/a": "/b"})
    assert "from_tensor_slices(stoker.moved(files, {'/a': '/b'}))" in made and "interleave(tf.data.TFRecordDataset," in made
    assert any("line 5: tf.data.TFRecordDataset is passed on, and not changed" in line for line in said)
    x = np.ones(3)
    assert stoker.moved((x, 2), {"/a": tmp_path}) == (x, 2)  # samples in memory stay what they are
    assert stoker.moved(["/a/1", "/c"], {"/a": tmp_path}) == [f"{tmp_path}/1", "/c"]


ROWS = """import sys
import h5py, numpy as np, torch
from torch.utils.data import Dataset, DataLoader, random_split

class Rows(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path, "r") as f:
            self.n = len(f["x"])
            self.made = f.attrs["made"]
    def __len__(self):
        return self.n
    def __getitem__(self, i):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return self.file["x"][i] * 2, self.file["y"][i], self.file["names"][i].decode()

if __name__ == "__main__":
    torch.manual_seed(3)
    rows = Rows(sys.argv[1])
    train, val = random_split(rows, [40, 10])
    for part in (train, val):
        batches = DataLoader(part, batch_size=8, shuffle=part is train, num_workers=int(sys.argv[2]))
        print(type(batches).__module__)
        print(rows.made, sorted((y.item(), x.sum().item(), n) for xs, ys, ns in batches for x, y, n in zip(xs, ys, ns)))
"""


def without_rows(path, manifest):
    """Rows that nobody may read any more are others now; the first and the last ones are compared."""
    import h5py
    with h5py.File(path, "r+") as f:
        f["x"][1:-1] = -1
    os.utime(manifest, (2**32, 2**32))  # so that the change is not seen


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_of_hdf5(tmp_path, workers):
    """A script with a file that is opened for the first sample: same numbers, from the packed data."""
    import h5py
    path, packed = tmp_path / "rows.h5", tmp_path / "packed"
    with h5py.File(path, "w") as f:
        f["x"], f["y"] = np.random.default_rng(1).random((50, 6)), np.arange(50)
        f["names"], f.attrs["made"] = [f"ä{i}" for i in range(50)], "here"
    run_stoker("pack", path, packed, "--quiet")
    (tmp_path / "train.py").write_text(ROWS)
    before = python(str(tmp_path / "train.py"), path, workers).splitlines()
    made = patch_and_read(tmp_path, ROWS.encode(), "--packed", f"{path}={packed}").decode()
    assert made.count("stoker.arrays.File(") == 2 and made.count("stoker.torch.DataLoader(") == 1
    without_rows(path, packed / "manifest.json")
    after = python(str(tmp_path / "train.py"), path, workers).splitlines()
    assert after[::2] == ["stoker._dataloader"] * 2 and after[1::2] == before[1::2]


def test_rows_where_they_are():
    """--loader: the same calls without a packed dataset; what stoker has no rows of stays."""
    head = "import h5py, numpy as np\n"
    for call, want in (("h5py.File(p, 'r')['x']", "stoker.arrays.File(p, 'r')['x']"),
                       ("np.load(p, mmap_mode='r')", "stoker.arrays.load(p, mmap_mode='r')"),
                       ("np.load(p, 'r')", "stoker.arrays.load(p, 'r')"), ("np.load(p)", None),
                       ("np.load(p, mmap_mode='r+')", None), ("h5py.File(p, 'a')", None), ("h5py.File(p, m)", None)):
        made, said = patched(f"{head}x = {call}\n", loader=True)
        assert made == (f"import stoker.arrays\n{head}x = {want}\n" if want else f"{head}x = {call}\n"), said
        assert said or call == "h5py.File(p, 'a')"


FILES = """import glob, json, sys
import numpy as np, torch
from PIL import Image
from torch.utils.data import Dataset, DataLoader

class Files(Dataset):
    def __init__(self, root):
        self.paths = sorted(glob.glob(root + "/*/*.png"), key=lambda p: p[::-1])
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        picture = np.asarray(Image.open(self.paths[i]).convert("RGB"))
        with open(self.paths[i], "rb") as f:
            return torch.tensor(picture).sum(), len(f.read())

if __name__ == "__main__":
    with open(sys.argv[2]) as f:
        workers = json.load(f)
    batches = DataLoader(Files(sys.argv[1]), 6, shuffle=True, num_workers=workers)
    print(type(batches).__module__)
    print(sorted((x.item(), y.item()) for xs, ys in batches for x, y in zip(xs, ys)))
"""


def test_files_of_a_folder(tmp_path):
    """A script that opens a file per sample, twice: same pictures, from the packed data, of which the folder has none."""
    image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    for i in range(20):
        folder = tmp_path / f"d/class{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (5 + i, 9), (i, 2 * i, 7)).save(folder / f"{i}.png")
    run_stoker("pack", tmp_path / "d", tmp_path / "p", "--shuffle", 1, "--quiet", "--no-write-index")
    for workers in (0, 2):
        (tmp_path / "n.json").write_text(str(workers))
        (tmp_path / "train.py").write_text(FILES)
        before = python(str(tmp_path / "train.py"), tmp_path / "d", tmp_path / "n.json").splitlines()
        made = patch_and_read(tmp_path, FILES.encode(), "--packed", f"{tmp_path}/d={tmp_path}/p").decode()
        assert made.count("stoker.files.open(") == 2 and "Image.open(stoker.files.member(self.paths[i], {" in made
        os.utime(tmp_path / "p/manifest.json", (2**32, 2**32))  # so that what happens to the files is not seen
        for path in (tmp_path / "d").glob("*/*"):  # the first of the packed ones is compared
            os.truncate(path, path.stat().st_size if path.name == first_key(tmp_path / "p") else 0)
        after = python(str(tmp_path / "train.py"), tmp_path / "d", tmp_path / "n.json").splitlines()
        assert after == ["stoker._dataloader", before[1]]
        for i in range(20):
            image.new("RGB", (5 + i, 9), (i, 2 * i, 7)).save(tmp_path / f"d/class{i % 2}/{i}.png")


def first_key(packed):
    return stoker.Dataset(packed)[0]["key"].rpartition("/")[2]


def test_what_takes_a_file_in_memory():
    """Calls that need a path, or write, stay, and it is said."""
    head = "import cv2, torch, gzip, numpy as np\nfrom PIL import Image\n"
    for call, want in (("torch.load(p)", "torch.load(stoker.files.member(p, {'/a': '/b'}))"),
                       ("np.load(file=p)", "np.load(file=stoker.files.member(p, {'/a': '/b'}))"),
                       ("open(p)", "stoker.files.open(p, packed={'/a': '/b'})"),
                       ("Image.open(open(p, 'rb'))", "Image.open(stoker.files.member(stoker.files.open(p, 'rb', "
                        "packed={'/a': '/b'}), {'/a': '/b'}))"),
                       ("gzip.open(p)", "gzip.open(stoker.files.member(p, {'/a': '/b'}))"),
                       ("cv2.imread(p)", None), ("open(p, 'w')", None), ("open(p, m)", None), ("torch.load(*p)", None)):
        made, said = patched(f"{head}x = {call}\n", packed={"/a": "/b"})
        assert made == (f"import stoker.files\n{head}x = {want}\n" if want else f"{head}x = {call}\n"), said
        assert said or call == "open(p, 'w')"


def test_methods_of_paths():
    """pathlib's ways to read. What is written, and what is no path when the script runs, stays."""
    for call, want in (("p.read_bytes()", "{}.read_bytes()"), ("p.open('rb')", "{}.open('rb')"), ("p.open()", "{}.open()"),
                       ("p.read_text(encoding='ascii')", "{}.read_text(encoding='ascii')"), ("p.open('w')", "p.open('w')"),
                       ("z.open(p)", "z.open(p)"), ("p.open(mode=m)", "p.open(mode=m)"), ("p.open(mode='r')", "{}.open(mode='r')")):
        for how, path in (("packed", "stoker.files.path(p, {'/a': '/b'})"), ("moved", "stoker.files.path(p, moved={'/a': '/b'})")):
            made, said = patched(f"x = {call}\n", **{how: {"/a": "/b"}})
            made = made.replace("import stoker.files\n", "")
            assert made == f"x = {want.format(path)}\n" and bool(said) == (made != f"x = {call}\n")
    made, _ = patched("import PIL.Image\nPIL.Image.open(p.open('rb'))\n", moved={"/a": "/b"})
    assert "open(stoker.moved(stoker.files.path(p, moved={'/a': '/b'}).open('rb'), {'/a': '/b'}))" in made
    with_ours = patched("p.read_bytes()\n", packed={"/a": "/b"})[0]
    assert with_ours == "import stoker.files\nstoker.files.path(p, {'/a': '/b'}).read_bytes()\n"


def test_only_calls_that_can_read_the_data(tmp_path):
    """Rows of HDF5 are in no file that open() reads, and pictures are in no HDF5: those calls stay."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "rows/a.h5").touch()
    (tmp_path / "pictures/a.jpg").touch()
    text = "import h5py\nx = h5py.File(p)\ny = open(p)\n"
    for name, changed, stays in (("rows", "stoker.arrays.File(p,", "y = open(p)\n"), ("rows/a.h5", "stoker.arrays", "open(p)\n"),
                                 ("pictures", "stoker.files.open(p,", "x = h5py.File(p)\n")):
        made, _ = patched(text, packed={str(tmp_path / name): "/b"})
        assert changed in made and stays in made


def test_records_of_tensorflow(tmp_path):
    """tf.data reads the shards; what a patch cannot see into is said, with what to do."""
    (tmp_path / "1.tfrecord").touch()
    head, places = "import tensorflow as tf\n", {str(tmp_path): "/b"}
    for call, want in (("tf.data.TFRecordDataset(files)", True), ("tf.data.TFRecordDataset(filenames=files)", True),
                       ("tf.data.TFRecordDataset(files, '')", True), ("tf.data.TFRecordDataset(files, 'GZIP')", False),
                       ("tf.data.TFRecordDataset(files, compression_type=c)", False),
                       ("tf.data.Dataset.list_files(p).interleave(tf.data.TFRecordDataset)", False)):
        made, said = patched(f"{head}d = {call}\n", packed=places)
        assert (f"stoker.files.records(files, {places!r})" in made) == want and ("by hand" in said[0]) != want
