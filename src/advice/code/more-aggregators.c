snprintf(value, sizeof value, "%d", COUNT);
MPI_Info_set(info, "cb_nodes", value);   // aggregators
