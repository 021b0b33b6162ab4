pread(fd, part, length, offset);   // in each of COUNT threads, ahead of the one that computes
