FILE *f = fopen(SOURCE, "a");   // once, before the loop
