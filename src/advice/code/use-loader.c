// INTRO
struct stk_loader_options o = {.batch = BATCH, .shuffle = SHUFFLE, .last = STK_LAST_SHORT};   // ADAPT: your batch
rc = stk_dataset_open(SOURCE, NULL, &dataset, &err);
rc = rc ? rc : stk_loader_open(dataset, &o, &loader, &err);
while (rc == 0 && stk_loader_next(loader, &batch, &err) == 1)
    stk_batch_release(batch);   // ADAPT: after its columns: batch->column[...]
