// ADAPT: a checkpoint: once, when it is complete, and before it is renamed into place
fflush(f);
fsync(fileno(f));
rename(partial, final);
// ADAPT: a log: no fsync() per line. Its lines outlive the program when they are written, and the node when they are synced
