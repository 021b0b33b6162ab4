# INTRO
import stoker.torch
LOADER = stoker.torch.Loader(SOURCE, batch=BATCH, threads=THREADS, shuffle=SHUFFLE, last="short")   # BATCH_MARK
