snprintf(work, sizeof work, "%s/XXXXXX", TARGET);
mkdtemp(work);   // ADAPT: work there, then move the result
