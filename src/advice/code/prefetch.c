readahead(fd, offset, BYTES);   // for what comes next
