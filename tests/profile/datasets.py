"""The files that programs.py works on: make(program, folder)."""

import io
import pathlib
import random

SIZE = 1000000


def plain(folder):
    (folder / "a.bin").write_bytes(random.Random(1).randbytes(SIZE))


def tree(folder):
    for name in ("x", "y", "z"):
        (folder / "tree" / name).mkdir(parents=True)
        for i in range(10):
            (folder / "tree" / name / f"{i}.jpg").write_bytes(b"1234")


def numpy_files(folder):
    import numpy as np
    values = np.arange(100000, dtype=np.float64)
    np.save(folder / "v.npy", values)
    values.tofile(folder / "v.raw")
    np.savez(folder / "v.npz", a=values, b=values[:100])


def h5(folder):
    import h5py
    import numpy as np
    with h5py.File(folder / "d.h5", "w") as f:
        f.create_dataset("rows", data=np.arange(100, dtype="f4")[:, None] * np.ones(500, "f4"))
        f.create_dataset("chunked", data=np.ones((64, 1024), "f4"), chunks=(8, 1024))


def images(folder):
    from PIL import Image
    noise = random.Random(2)
    (folder / "images").mkdir()
    for i, kind in enumerate(("jpeg", "png", "jpeg", "png")):
        out = io.BytesIO()
        Image.frombytes("RGB", (200, 200), noise.randbytes(120000)).save(out, kind)
        (folder / "images" / f"{i}.{kind}").write_bytes(out.getvalue())


def table(folder):
    rows = random.Random(3)
    (folder / "t.csv").write_text("a,b,c\n" + "".join(
        f"{i},{rows.random()},{rows.randint(0, 10 ** 9)}\n" for i in range(2000)))


def parts(folder):
    for i in range(32):
        (folder / f"p{i:02d}.bin").write_bytes(bytes([i]) * 10000)


KINDS = {"walk": tree, "numpy_load": numpy_files, "numpy_memmap": numpy_files,
         "numpy_npz": numpy_files, "h5_read": h5, "images": images, "csv_rows": table,
         "pandas_csv": table, "loader": parts, "pool": parts}


def make(program, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    KINDS.get(program, plain)(folder)
    return folder
