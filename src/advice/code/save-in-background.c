pthread_create(&thread, NULL, save, copy_of_state);
