import io, tarfile
t = tarfile.open("results.tar", "w")   # ADAPT: in SOURCE, once, before the loop; t.close() at its end
def keep(name, data):                  # ADAPT: each result; data: bytes
    member = tarfile.TarInfo(name)
    member.size = len(data)
    t.addfile(member, io.BytesIO(data))
    t.fileobj.flush()                  # a killed program loses the result that it was writing, not those before
