setvbuf(stream, malloc(BYTES), _IOFBF, BYTES);   // before the first read; without a buffer of yours, the C library ignores the size
