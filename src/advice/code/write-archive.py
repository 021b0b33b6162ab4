import tarfile
with tarfile.open("results.tar", "w") as t:
    t.add(part)   # ADAPT: each result
