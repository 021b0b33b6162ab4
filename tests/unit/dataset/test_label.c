/* test_label.c - labels from directories and from CSV files: the class a key gets, and keys that
 * get none. ImageNet-C is corruption/severity/class: any level must do. */
#include "check.h"
#include "scratch.h"
#include "dataset/label.h"

static struct stk_dataset *open_set(const char *name)
{
    struct stk_dataset *ds = NULL;
    struct stk_open_options o = {.no_index_write = true};
    CHECK_INT(stk_dataset_open(scratch_path(name), &o, &ds, NULL), 0);
    return ds;
}

static struct stk_err err;

/* The label of a key: its number, -1 for none given this way, -2 for an error. */
static int64_t label(const struct stk_labels *l, const char *key)
{
    int64_t v = -99;
    err = (struct stk_err){0};
    int rc = stk_labels_of(l, key, strlen(key), &v, &err);
    return rc == 1 ? v : rc == 0 ? -1 : -2;
}

static void directories(void)
{
    static const char *const names[] = {"noise/1/cat/a.jpg", "noise/1/dog/b.jpg",
                                        "noise/2/cat/c.jpg", "blur/5/zebra/d.jpg",
                                        "blur/5/ant/e.jpg"};
    for (size_t i = 0; i < 5; i++) {
        char path[64];
        snprintf(path, sizeof path, "c/%s", names[i]);
        scratch_file(path, "x", 1);
    }
    struct stk_dataset *ds = open_set("c");
    struct stk_labels l;
    CHECK_INT(stk_labels_init(&l, "dir:3", ds, &err), 0);
    CHECK_INT(l.nclasses, 4); /* in byte order: ant cat dog zebra */
    CHECK_STR(l.classes[0], "ant");
    CHECK_STR(l.classes[3], "zebra");
    CHECK_INT(label(&l, "noise/2/cat/c.jpg"), 1);
    CHECK_INT(label(&l, "blur/5/zebra/d.jpg"), 3);
    CHECK_INT(label(&l, "blur/5/d.jpg"), -2); /* has no third directory */
    CHECK(strstr(err.what, "blur/5/d.jpg") && strstr(err.what, "3"));
    stk_labels_release(&l);
    CHECK_INT(stk_labels_init(&l, "dir", ds, &err), 0); /* the last one */
    CHECK_INT(label(&l, "noise/1/dog/b.jpg"), 2);
    stk_labels_release(&l);
    CHECK_INT(stk_labels_init(&l, "dir:-2", ds, &err), 0);
    CHECK_INT(l.nclasses, 3);
    CHECK_INT(label(&l, "blur/5/ant/e.jpg"), 2);
    stk_labels_release(&l);
    CHECK_INT(stk_labels_init(&l, "auto", ds, &err), 0); /* the first one, as ImageFolder */
    CHECK_INT(l.nclasses, 2);
    CHECK_INT(label(&l, "noise/1/dog/b.jpg"), 1);
    stk_labels_release(&l);
    CHECK_INT(stk_labels_init(&l, "none", ds, &err), 0);
    CHECK_INT(label(&l, "noise/1/dog/b.jpg"), -1);
    stk_labels_release(&l);
    static const char *const wrong[] = {"dir:0",    "dir:x", "dir:", "dir:1x",
                                        "dir:1000", "class", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(stk_labels_init(&l, wrong[i], ds, &err), STK_E_USAGE);
        stk_labels_release(&l);
    }
    stk_dataset_close(ds);
}

static void a_file_beside_the_classes(void)
{
    struct stk_labels l;
    scratch_file("m/cat/a.jpg", "x", 1);
    scratch_file("m/b.jpg", "x", 1);
    struct stk_dataset *ds = open_set("m");
    CHECK_INT(stk_labels_init(&l, "auto", ds, &err), 0); /* then directories are not classes */
    CHECK_INT(l.nclasses, 0);
    CHECK_INT(label(&l, "cat/a.jpg"), -1);
    stk_labels_release(&l);
    CHECK_INT(stk_labels_init(&l, "dir", ds, &err), 0); /* asked for: b.jpg alone has none */
    CHECK_INT(label(&l, "cat/a.jpg"), 0);
    CHECK_INT(label(&l, "b.jpg"), -2);
    stk_labels_release(&l);
    stk_dataset_close(ds);
}

static void many_classes(void)
{
    char path[64];
    for (int i = 0; i < 1200; i++) {
        snprintf(path, sizeof path, "many/c%04d/x", 1199 - i);
        scratch_file(path, "x", 1);
    }
    struct stk_dataset *ds = open_set("many");
    struct stk_labels l;
    CHECK_INT(stk_labels_init(&l, NULL, ds, &err), 0);
    CHECK_INT(l.nclasses, 1200);
    for (int i = 0; i < 1200; i += 7) {
        snprintf(path, sizeof path, "c%04d/x", i);
        CHECK_INT(label(&l, path), i);
    }
    stk_labels_release(&l);
    stk_dataset_close(ds);
}

static int from_csv(struct stk_labels *l, const char *text)
{
    char spec[700];
    snprintf(spec, sizeof spec, "csv:%s", scratch_file("labels.csv", text, strlen(text)));
    struct stk_dataset *ds = open_set("any");
    err = (struct stk_err){0};
    int rc = stk_labels_init(l, spec, ds, &err);
    stk_dataset_close(ds);
    return rc;
}

static void csv(void)
{
    struct stk_labels l;
    scratch_file("any/a.jpg", "x", 1);
    CHECK_INT(from_csv(&l, "key,label\ncat/a.jpg,7\nb.jpg,-3\nx,9\n"), 0);
    CHECK_INT(label(&l, "cat/a.jpg"), 7);
    CHECK_INT(label(&l, "b.jpg"), -3);
    CHECK_INT(label(&l, "x.png"), 9);      /* without its extension */
    CHECK_INT(label(&l, "d/e/b.jpg"), -3); /* by its file's name */
    CHECK_INT(label(&l, "nobody"), -2);
    CHECK(strstr(err.what, "nobody"));
    CHECK_INT(l.nclasses, 0);
    stk_labels_release(&l);
    CHECK_INT(from_csv(&l, "file,class\na.jpg,dog\nb.jpg,cat\nc.jpg,dog\n"), 0); /* names */
    CHECK_INT(l.nclasses, 2);
    CHECK_STR(l.classes[0], "cat");
    CHECK_INT(label(&l, "cat/a.jpg"), 1);
    CHECK_INT(label(&l, "b.jpg"), 0);
    stk_labels_release(&l);
    CHECK(from_csv(&l, "key\na.jpg\n") < 0); /* no second column */
    CHECK(strstr(err.what, "labels from"));
    stk_labels_release(&l);
    struct stk_dataset *ds = open_set("any");
    CHECK_INT(stk_labels_init(&l, "csv:/nonexistent.csv", ds, &err), STK_E_SYS);
    stk_labels_release(&l);
    stk_dataset_close(ds);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(directories);
    CHECK_RUN(a_file_beside_the_classes);
    CHECK_RUN(many_classes);
    CHECK_RUN(csv);
    scratch_done();
    return CHECK_DONE();
}
