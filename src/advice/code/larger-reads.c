n = read(fd, buffer, BYTES);
