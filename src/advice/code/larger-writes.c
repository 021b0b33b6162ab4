setvbuf(stream, malloc(BYTES), _IOFBF, BYTES);   // no fflush(); C++: '\n', not std::endl
// a killed program loses what is in the buffer; where every line counts: setvbuf(stream, NULL, _IOLBF, 0)
