import os, tempfile
work = tempfile.mkdtemp(dir=TARGET)   # ADAPT: work there, then move the result to SOURCE
