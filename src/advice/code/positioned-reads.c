n = pread(fd, buffer, length, offset);   // instead of lseek + read
