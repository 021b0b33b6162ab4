setvbuf(stream, NULL, _IOFBF, BYTES);
