# INTRO
import stoker.tf
LOADER = stoker.tf.dataset(SOURCE, batch=BATCH, threads=THREADS, shuffle=SHUFFLE, last="short",   # BATCH_MARK
    decode=DECODE, as_tuple=FIELDS)   # DECODE_MARK
