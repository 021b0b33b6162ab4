// stoker.h, -lstoker; everything at once, when it is complete: the old or the new file is there, whole
rc = stk_save_begin(SOURCE, NULL, &save, &err);
rc = rc ? rc : write_state(stk_save_fd(save));   // ADAPT: your writer; after an error: stk_save_abort(save)
rc = rc ? rc : stk_save_commit(save, &err);
