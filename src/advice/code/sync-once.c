fflush(f); fsync(fileno(f));   // once, at the end
rename(partial, final);
