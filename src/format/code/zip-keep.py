import io, zipfile
z = zipfile.ZipFile(io.BytesIO(open(SOURCE, "rb").read()))
