setvbuf(stream, NULL, _IOFBF, BYTES);   // C; no fflush()
