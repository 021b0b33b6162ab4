fstat(fd, &found);   // once, before the loop
