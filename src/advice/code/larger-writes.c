// ADAPT: a file that is of use only when it is complete: a killed program loses what is in the buffer
setvbuf(stream, NULL, _IOFBF, BYTES);   // no fflush(); C++: '\n', not std::endl
// ADAPT: a file in which every line counts: a line is written when it is complete
setvbuf(stream, NULL, _IOLBF, 0);
