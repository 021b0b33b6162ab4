// ADAPT: a checkpoint: once, when it is complete, and before it is renamed into place; a failed one replaces nothing
if (!ferror(f) && fflush(f) == 0 && fsync(fileno(f)) == 0)
    rename(partial, final);
// ADAPT: a log: no fsync() per line. Its lines outlive the program when they are written, and the node when they are synced
