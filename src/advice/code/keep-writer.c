FILE *f = fopen(SOURCE, "a");   // once, before the loop
setvbuf(f, NULL, _IOLBF, 0);   // each line is written when it is complete, and none is lost when the program is killed
