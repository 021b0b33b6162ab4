setvbuf(stream, NULL, _IOLBF, 0);   // a line is written when it is complete, and none is lost when the program is killed
