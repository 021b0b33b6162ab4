x = f["NAME"][i:i + batch]   # ADAPT: one request, not `batch` of them
