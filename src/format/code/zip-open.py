zipfile.ZipFile(SOURCE)
