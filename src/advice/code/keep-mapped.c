data = mmap(NULL, size, PROT_READ, MAP_SHARED, open(SOURCE, O_RDONLY), 0);   // once, before the loop
