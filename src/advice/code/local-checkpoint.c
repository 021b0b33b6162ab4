// stoker.h, -lstoker; path: a checkpoint in SOURCE. The old or the new one is there, whole
rc = stk_save_begin(path, TARGET, &save, &err);
rc = rc ? rc : write_state(stk_save_fd(save));   // ADAPT: your writer; after an error: stk_save_abort(save)
rc = rc ? rc : stk_save_start(save, &err);   // copies on a thread; exit() and stk_saves_wait() wait for it
