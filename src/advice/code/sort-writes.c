pwrite(fd, data, size, 0);   // everything at once, when it is complete
