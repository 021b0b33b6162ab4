pyarrow.ipc.open_file(SOURCE)
