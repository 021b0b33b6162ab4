# INTRO
import stoker.tf
LOADER = stoker.tf.dataset(SOURCE, batch=BATCH, threads=THREADS, shuffle=SHUFFLE, last="short")   # BATCH_MARK
