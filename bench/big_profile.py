"""Profiles as large as they get, for the page: 1,000 ranks and more files than a profile keeps one by one (16,384).

    python3 bench/big_profile.py log OUT.txt [RANKS [FILES]]         the output of darshan-parser
    python3 bench/big_profile.py record OUT.profile [RANKS [FILES]]  a recorded run: a process per rank, FILES files each
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

STOKER = os.environ.get("STOKER", "build/stoker")


def write_log(path, ranks=1000, files=40):
    rng = random.Random(1)
    with open(path, "w") as out:
        out.write("# darshan log version: 3.41\n# exe: ./train --data /scratch/project/dataset\n# uid: 1000\n# jobid: 4711\n"
                  f"# start_time: 1794741021\n# end_time: 1794744621\n# nprocs: {ranks}\n# run time: 3600.0\n\n"
                  "# mounted file systems (mount point and fs type)\n# mount entry:\t/scratch\tlustre\n\n# POSIX module data\n")
        for rank in range(ranks):
            for k in range(files):
                reads, size = rng.randrange(10, 4000), rng.choice([4096, 65536, 1 << 20])
                start = rng.uniform(0, 3000)
                took = reads * rng.uniform(1e-5, 4e-4)
                values = {"POSIX_OPENS": 1, "POSIX_READS": reads, "POSIX_SEEKS": reads, "POSIX_STATS": 2,
                          "POSIX_BYTES_READ": reads * size, "POSIX_MAX_BYTE_READ": reads * size - 1,
                          "POSIX_SEQ_READS": reads // 2, "POSIX_CONSEC_READS": reads // 3,
                          {4096: "POSIX_SIZE_READ_1K_10K", 65536: "POSIX_SIZE_READ_10K_100K"}.get(size, "POSIX_SIZE_READ_1M_4M"): reads,
                          "POSIX_F_OPEN_START_TIMESTAMP": start, "POSIX_F_READ_START_TIMESTAMP": start + 0.01,
                          "POSIX_F_READ_END_TIMESTAMP": start + 0.01 + took * 3, "POSIX_F_READ_TIME": took,
                          "POSIX_F_META_TIME": 0.002, "POSIX_F_CLOSE_END_TIMESTAMP": start + took * 3 + 0.02}
                name = f"/scratch/project/dataset/train/class{k:03d}/rank{rank:04d}/shard-{rank:04d}-{k:05d}.tfrecord"
                for counter, value in values.items():
                    out.write(f"POSIX\t{rank}\t{rank * files + k + 1}\t{counter}\t{value}\t{name}\t/scratch\tlustre\n")


def record(folder, ranks=1000, files=17, stoker=STOKER):
    """Each rank reads files of its own; all of them are processes of one recorded program."""
    with tempfile.TemporaryDirectory(dir=pathlib.Path(folder).resolve().parent) as data:
        for rank in range(ranks):
            own = pathlib.Path(data) / f"rank{rank}"
            own.mkdir()
            for k in range(files):
                (own / f"shard-{rank:04d}-{k:05d}.bin").write_bytes(b"x" * (4096 * (1 + (rank + k) % 7)))
        script = (f"for r in $(seq 0 {ranks - 1}); do RANK=$r WORLD_SIZE={ranks} cat {data}/rank$r/* >/dev/null & "
                  f"case $r in *7) wait;; esac; done; wait")
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([stoker, "profile", "-q", "-o", folder, "--", "sh", "-c", script], check=True)


if __name__ == "__main__":
    {"log": write_log, "record": record}[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:]))
