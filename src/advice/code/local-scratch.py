import os, shutil, stoker, tempfile
work = tempfile.mkdtemp(dir=TARGET)   # ADAPT: work there
def keep(name):                       # ADAPT: each result, when it is complete
    with open(os.path.join(work, name), "rb") as f:
        stoker.save(f, os.path.join(SOURCE, name), write=shutil.copyfileobj)
