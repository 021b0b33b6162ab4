pread(fd, part, length, offset);   // in each of COUNT threads
