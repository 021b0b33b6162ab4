"""Small programs whose I/O is known, for test_truth.py: `programs.py NAME FOLDER` runs one.

Each does what its comment says to files in FOLDER, which the test has made (a.bin: 1,000,000 bytes
unless said otherwise), and nothing else there.
"""

import csv
import mmap
import os
import sys

PAGE = 4096


def os_calls(folder):
    """Every kind of call once or a known number of times, through Python's os module."""
    a, b = f"{folder}/a.bin", f"{folder}/b.bin"
    os.stat(a)
    os.stat(a)
    os.access(a, os.R_OK)
    fd = os.open(a, os.O_RDONLY)
    os.fstat(fd)
    for _ in range(10):
        os.read(fd, 1000)                   # 10 reads, one first, nine consecutive
    os.lseek(fd, 500000, os.SEEK_SET)
    os.read(fd, 1000)                       # sequential, not consecutive
    os.pread(fd, 2000, 100000)              # goes back: random
    os.preadv(fd, [bytearray(50), bytearray(50)], 102000)  # consecutive
    os.readv(fd, [bytearray(100), bytearray(28)])  # at 501,000: sequential
    os.lseek(fd, 0, os.SEEK_END)
    os.read(fd, 10)                         # end of file: 0 bytes
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    other = os.dup(fd)
    os.close(fd)
    os.pread(other, 10, 0)                  # same description, goes back
    os.close(other)
    fd = os.open(b, os.O_RDWR | os.O_CREAT, 0o644)
    for _ in range(5):
        os.write(fd, b"x" * 3000)
    os.pwrite(fd, b"y" * 200, 100000)
    os.writev(fd, [b"1" * 10, b"2" * 20])
    os.fsync(fd)
    os.fdatasync(fd)
    os.close(fd)
    os.rename(b, f"{folder}/c.bin")
    os.stat(f"{folder}/c.bin")
    os.unlink(f"{folder}/c.bin")
    for wrong in (os.stat, os.unlink, lambda p: os.open(p, os.O_RDONLY)):
        try:
            wrong(f"{folder}/missing.bin")
        except FileNotFoundError:
            pass


def mapped(folder):
    """The whole file mapped, every page touched; one page of it mapped again."""
    with open(f"{folder}/a.bin", "rb") as f:
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            sum(m[i] for i in range(0, len(m), PAGE))
        with mmap.mmap(f.fileno(), PAGE, prot=mmap.PROT_READ, offset=PAGE) as m:
            m[0]


def copies(folder):
    """200,000 bytes by sendfile from one file to another, 300,000 by copy_file_range."""
    src = os.open(f"{folder}/a.bin", os.O_RDONLY)
    for name, size in (("sent.bin", 200000), ("copied.bin", 300000)):
        dst = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT, 0o644)
        done = 0
        while done < size:
            if name == "sent.bin":
                done += os.sendfile(dst, src, done, size - done)
            else:
                done += os.copy_file_range(src, dst, size - done, offset_src=done)
        os.close(dst)
    os.close(src)


def walk(folder):
    """Lists a tree of three directories with ten files each, and stats every file."""
    for name in sorted(os.listdir(f"{folder}/tree")):
        for file in sorted(os.listdir(f"{folder}/tree/{name}")):
            os.stat(f"{folder}/tree/{name}/{file}")


def whole_files(folder):
    """open().read(), as most datasets do it, three times."""
    for _ in range(3):
        with open(f"{folder}/a.bin", "rb") as f:
            f.read()


def buffered(folder):
    """Through Python's buffers: small reads, seeks, lines, appends."""
    with open(f"{folder}/a.bin", "rb") as f:
        for _ in range(100):
            f.read(100)
        f.seek(600000)
        f.read(10)
        f.seek(10)
        f.read(20000)
    with open(f"{folder}/b.txt", "w") as f:
        for i in range(5000):
            f.write(f"line {i}\n")
    with open(f"{folder}/b.txt") as f:
        sum(len(line) for line in f)
    with open(f"{folder}/b.txt", "ab") as f:
        f.write(b"end\n")


def numpy_save(folder):
    """800,000 bytes of floats behind a header; then as plain bytes."""
    import numpy as np
    values = np.arange(100000, dtype=np.float64)
    np.save(f"{folder}/v.npy", values)
    values.tofile(f"{folder}/v.raw")


def numpy_load(folder):
    import numpy as np
    assert np.load(f"{folder}/v.npy").sum() == 99999 * 50000
    assert np.fromfile(f"{folder}/v.raw", dtype=np.float64).size == 100000
    assert np.fromfile(f"{folder}/v.raw", dtype=np.float64, count=10, offset=8000)[0] == 1000


def numpy_memmap(folder):
    import numpy as np
    array = np.memmap(f"{folder}/v.raw", dtype=np.float64, mode="r")
    assert array[::512].size
    mapped_array = np.load(f"{folder}/v.npy", mmap_mode="r")
    assert mapped_array[5] == 5


def numpy_npz(folder):
    import numpy as np
    with np.load(f"{folder}/v.npz") as z:
        assert z["a"].sum() + z["b"].sum()


def h5_read(folder):
    """Contiguous rows one by one, then a chunked dataset in one go."""
    import h5py
    with h5py.File(f"{folder}/d.h5", "r") as f:
        rows = f["rows"]
        for i in range(100):
            assert rows[i][0] == i
        assert f["chunked"][...].shape == (64, 1024)


def h5_write(folder):
    import h5py
    import numpy as np
    with h5py.File(f"{folder}/w.h5", "w") as f:
        rows = f.create_dataset("rows", (50, 1000), dtype="f4")
        for i in range(50):
            rows[i] = np.full(1000, i, "f4")


def images(folder):
    """PIL reads as the decoder asks for more."""
    from PIL import Image
    for name in sorted(os.listdir(f"{folder}/images")):
        with Image.open(f"{folder}/images/{name}") as image:
            image.convert("RGB").resize((32, 32))


def csv_rows(folder):
    with open(f"{folder}/t.csv", newline="") as f:
        assert sum(1 for _ in csv.reader(f)) == 2001


def pandas_csv(folder):
    import pandas
    assert len(pandas.read_csv(f"{folder}/t.csv")) == 2000


def loader(folder, method="fork"):
    """A DataLoader with two workers. Sample i: os.open, two preads of 5,000 bytes, os.close, of
    file i % 8; batches of 4 in order, so worker w reads batches w, w + 2, …: 40 samples, 20
    each."""
    import torch.utils.data
    from torch_dataset import Samples
    batches = torch.utils.data.DataLoader(Samples(folder, 40), batch_size=4, num_workers=2,
                                          multiprocessing_context=method)
    assert sum(int(b.sum()) for b in batches) == 40 * 10000


def pool(folder):
    """Four workers of a Pool, ended by SIGTERM as `with` does; 32 files read whole."""
    import multiprocessing
    paths = [f"{folder}/p{i:02d}.bin" for i in range(32)]
    with multiprocessing.get_context("fork").Pool(4) as workers:
        assert sum(workers.map(read_whole, paths, chunksize=1)) == 32 * 10000


def read_whole(path):
    fd = os.open(path, os.O_RDONLY)
    got = len(os.read(fd, 1 << 20))
    os.close(fd)
    return got


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
