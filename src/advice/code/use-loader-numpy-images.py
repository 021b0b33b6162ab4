# INTRO
import stoker
LOADER = stoker.Loader(SOURCE, batch=BATCH, threads=THREADS, shuffle=SHUFFLE, last="short",   # BATCH_MARK
    decode=DECODE, as_tuple=FIELDS)   # DECODE_MARK
