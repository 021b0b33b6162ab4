/*
 * find.c - the datasets of an HDF5 file under all their names: hard links, soft links inside
 * the file, and the members of compounds, each of which is a column of its own.
 *
 * Links to other files are not followed: only the named file is read.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "format/jail.h"

#define MAX_DATASETS 1000000u /* in a file */
#define MAX_NESTED   8        /* compounds within compounds */
#define MAX_DEPTH    200      /* nested groups: every name is looked up from the root */

struct visit {
    struct stk_h5_file *f;
    struct stk_lister *l;
    struct stk_h5_dataset *set;
    size_t n;
    hid_t how; /* access to links: never to other files */
    char *left; /* the last that was left out, and why */
    size_t left_size;
    struct stk_err *err;
};

/* ---- adding ---- */

static struct stk_h5_dataset *new_set(struct visit *v, const char *name, const char *path)
{
    if (v->n >= MAX_DATASETS) {
        (void)stk_err_set(v->err, STK_E_UNSUPPORTED, stk_src_path(v->f->src), -1,
                          "more than a million datasets in the file");
        return NULL;
    }
    if (STK_ARRAY_MORE(v->set, v->n, v->err))
        return NULL;
    struct stk_h5_dataset *d = &v->set[v->n];
    *d = (struct stk_h5_dataset){.name = strdup(name), .path = strdup(path)};
    v->n++;
    if (d->name && d->path)
        return d;
    (void)stk_err_nomem(v->err, strlen(name));
    return NULL;
}

static const char *member_trouble(const struct stk_h5_type *t)
{
    if (t->what == STK_H5_REFUSED)
        return t->why;
    if (t->what == STK_H5_VARIABLE)
        return "it holds compounds with members of variable length";
    if (t->what == STK_H5_NUMBERS && t->big_endian && stk_dtype_size(t->dtype) > 1)
        return "it holds compounds with big-endian numbers";
    return NULL;
}

static int add_members(struct visit *v, hid_t type, const struct stk_h5_dataset *like,
                       const char *prefix, size_t at, unsigned depth);

static int add_member(struct visit *v, hid_t type, const struct stk_h5_dataset *like,
                      const char *name, size_t at, unsigned depth)
{
    struct stk_h5_type t;
    stk_h5_describe_type(type, v->f->addr_size, &t);
    if (t.compound && t.what == STK_H5_OPAQUE && depth < MAX_NESTED)
        return add_members(v, type, like, name, at, depth + 1);
    const char *why = member_trouble(&t);
    if (!stk_list_wants(v->l, name))
        return 0;
    if (why)
        return stk_list_left_out(v->l, "column", name, why, v->err);
    struct stk_h5_dataset *d = new_set(v, name, like->path);
    if (!d)
        return v->err->code;
    d->type = t;
    d->rank = like->rank;
    memcpy(d->dim, like->dim, sizeof d->dim);
    d->at = at;
    d->whole = like->whole;
    return 0;
}

static int add_members(struct visit *v, hid_t type, const struct stk_h5_dataset *like,
                       const char *prefix, size_t at, unsigned depth)
{
    int n = stk_h5.Tget_nmembers(type), rc = 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        char name[1024];
        char *own = stk_h5.Tget_member_name(type, (unsigned)i);
        hid_t member = stk_h5.Tget_member_type(type, (unsigned)i);
        snprintf(name, sizeof name, "%s/%s", prefix, own ? own : "");
        if (!own || member < 0)
            rc = stk_h5_failed(stk_src_path(v->f->src), "describe a compound", v->err);
        else
            rc = add_member(v, member, like, name,
                            at + stk_h5.Tget_member_offset(type, (unsigned)i), depth);
        stk_h5.free_memory(own);
        if (member >= 0)
            stk_h5.Tclose(member);
    }
    return rc;
}

/* ---- describing ---- */

/* A list of compounds is a table: its members replace it. */
static int add_described(struct visit *v, hid_t type, const struct stk_h5_dataset *d)
{
    if (d->type.compound && d->type.what == STK_H5_OPAQUE && d->rank == 1) {
        struct stk_h5_dataset like = *d;
        like.whole = d->type.size;
        return add_members(v, type, &like, d->name, 0, 0);
    }
    struct stk_h5_dataset *own = new_set(v, d->name, d->path);
    if (!own)
        return v->err->code;
    own->type = d->type;
    own->rank = d->rank;
    own->matlab = d->matlab;
    own->flat = d->flat;
    memcpy(own->dim, d->dim, sizeof own->dim);
    return 0;
}

/* MATLAB stores all arrays with two dimensions or more, the last one first. */
static void describe_matlab(hid_t ds, struct stk_h5_dataset *d)
{
    char class[32];
    d->matlab =
        d->rank >= 2 && stk_h5_text_attribute(ds, "MATLAB_class", class, sizeof class);
    if (d->matlab && strcmp(class, "char") == 0) {
        d->type.what = STK_H5_REFUSED;
        snprintf(d->type.why, sizeof d->type.why, "it is MATLAB's text, a number for each letter");
    }
    d->flat = d->matlab && d->rank == 2 && (d->dim[0] == 1 || d->dim[1] == 1);
    if (stk_h5.Aexists(ds, "MATLAB_empty") > 0) { /* it holds the dimensions */
        d->type.what = STK_H5_REFUSED;
        snprintf(d->type.why, sizeof d->type.why, "it is empty");
    }
    if (d->flat) {
        d->dim[0] *= d->dim[1];
        d->rank = 1;
    }
}

static int describe(struct visit *v, hid_t ds, const char *name)
{
    const char *path = stk_src_path(v->f->src);
    hid_t type = stk_h5.Dget_type(ds), space = stk_h5.Dget_space(ds);
    hsize_t dim[H5S_MAX_RANK];
    int rc = 0, rank = space < 0 ? -1 : stk_h5.Sget_simple_extent_dims(space, dim, NULL);
    struct stk_h5_dataset d = {.name = (char *)(uintptr_t)name, .path = (char *)(uintptr_t)name};
    if (type < 0 || rank < 0 || rank > STK_H5_MAX_RANK)
        rc = stk_h5_failed(path, "describe a dataset", v->err);
    if (rc == 0) {
        stk_h5_describe_type(type, v->f->addr_size, &d.type);
        d.rank = stk_h5.Sget_simple_extent_type(space) == H5S_SIMPLE ? (unsigned)rank : 0;
        for (unsigned i = 0; i < d.rank; i++)
            d.dim[i] = dim[i];
        if (stk_h5.Sget_simple_extent_type(space) == H5S_NULL) {
            d.type.what = STK_H5_REFUSED;
            snprintf(d.type.why, sizeof d.type.why, "it is empty");
        }
        describe_matlab(ds, &d);
        rc = add_described(v, type, &d);
    }
    if (type >= 0)
        stk_h5.Tclose(type);
    if (space >= 0)
        stk_h5.Sclose(space);
    return rc;
}

/* netCDF stores the length of an axis without values as an empty dataset. */
static bool is_netcdf_axis(hid_t ds)
{
    static const char mark[] = "This is a netCDF dimension but not a netCDF variable";
    char text[128];
    return stk_h5_text_attribute(ds, "NAME", text, sizeof text) &&
           strncmp(text, mark, sizeof mark - 1) == 0;
}

/* Checked first: to get the shape of a view, libhdf5 opens the files it names. */
static bool is_view(const struct visit *v, haddr_t header)
{
    struct stk_h5_layout layout;
    return stk_h5_find_layout(v->f, header, &layout, NULL) == 0 && layout.class == STK_H5_VIRTUAL;
}

static int describe_unless_view(struct visit *v, hid_t ds, haddr_t header, const char *name)
{
    const char *path = stk_src_path(v->f->src);
    if (ds < 0)
        return stk_h5_failed(path, "open a dataset", v->err);
    if (is_view(v, header))
        return stk_err_set(v->err, STK_E_UNSUPPORTED, path, -1,
                           "it is a view of other datasets (virtual)");
    return is_netcdf_axis(ds) ? 0 : describe(v, ds, name);
}

/* A dataset that libhdf5 cannot open does not hide the others: it is left out if the library is too
 * old for it, and a problem if it is damaged. */
static int add_dataset(struct visit *v, hid_t root, haddr_t header, const char *name)
{
    struct stk_err why = {.offset = -1}, *outer = v->err;
    hid_t ds = stk_h5.Dopen2(root, name, H5P_DEFAULT);
    v->err = &why;
    int rc = describe_unless_view(v, ds, header, name);
    v->err = outer;
    if (ds >= 0)
        stk_h5.Dclose(ds);
    if (rc == STK_E_UNSUPPORTED && v->n < MAX_DATASETS) {
        snprintf(v->left, v->left_size, ": %.100s: %.250s", name, why.what);
        return stk_list_left_out(v->l, "dataset", name, why.what, v->err);
    }
    if (rc == STK_E_CORRUPT)
        return stk_list_problem(v->l, -1, v->err, "dataset '%.200s': %s", name, why.what);
    if (rc < 0)
        *v->err = why;
    return rc;
}

/* ---- links ---- */

/* PyTables keeps its indexes in groups of these names: they only repeat the table. MATLAB keeps
 * there what cells and objects consist of. */
static bool is_internal(const char *name)
{
    if (strncmp(name, "#refs#/", 7) == 0 || strncmp(name, "#subsystem#/", 12) == 0)
        return true;
    for (const char *p = name; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
        if (strncmp(p, "_i_", 3) == 0 && strchr(p, '/'))
            return true;
    return false;
}

static int visit_soft(struct visit *v, hid_t root, const char *name)
{
    H5O_info_t info;
    if (stk_h5.Oget_info_by_name(root, name, &info, v->how) < 0)
        return stk_list_left_out(v->l, "link", name,
                                 "soft links that lead nowhere, or out of the file", v->err);
    if (info.type == H5O_TYPE_DATASET)
        return add_dataset(v, root, info.addr, name);
    return stk_list_left_out(v->l, "link", name,
                             "soft links to groups; only those to datasets are followed", v->err);
}

static int visit_hard(struct visit *v, hid_t root, const char *name)
{
    H5O_info_t info;
    struct stk_err why = {0};
    if (stk_h5.Oget_info_by_name(root, name, &info, v->how) < 0) {
        (void)stk_h5_failed(stk_src_path(v->f->src), "describe an object", &why);
        return stk_list_problem(v->l, -1, v->err, "object '%.200s': %s", name, why.what);
    }
    if (info.type != H5O_TYPE_DATASET || is_internal(name))
        return 0;
    return add_dataset(v, root, info.addr, name);
}

static bool too_deep(const char *name)
{
    unsigned depth = 0;
    for (; *name; name++)
        depth += *name == '/';
    return depth > MAX_DEPTH;
}

/* Returns 1 to stop: the error is in v->err then. */
static herr_t visit_link(hid_t root, const char *name, const H5L_info_t *link, void *user)
{
    struct visit *v = user;
    int rc;
    stk_list_alive(v->l);
    if (too_deep(name)) {
        (void)stk_err_set(v->err, STK_E_UNSUPPORTED, stk_src_path(v->f->src), -1,
                          "groups nested more than %d deep", MAX_DEPTH);
        return 1;
    }
    if (!stk_list_wants(v->l, name))
        return 0;
    if (link->type == H5L_TYPE_HARD)
        rc = visit_hard(v, root, name);
    else if (link->type == H5L_TYPE_SOFT)
        rc = visit_soft(v, root, name);
    else
        rc = stk_list_left_out(v->l, "link", name, "links to other files, which are not opened",
                               v->err);
    return rc < 0 ? 1 : 0;
}

static herr_t refuse_file(const char *parent, const char *group, const char *child,
                          const char *object, unsigned *flags, hid_t fapl, void *user)
{
    (void)parent, (void)group, (void)child, (void)object, (void)flags, (void)fapl, (void)user;
    return -1;
}

int stk_h5_find(struct stk_h5_file *f, struct stk_lister *l, hid_t h5, struct stk_h5_dataset **set,
                size_t *n, char *left, size_t left_size, struct stk_err *err)
{
    struct stk_err why = {0};
    struct visit v = {.f = f,
                      .l = l,
                      .err = &why,
                      .how = stk_h5.Pcreate(*stk_h5.P_LINK_ACCESS),
                      .left = left,
                      .left_size = left_size};
    /* In creation order if the file records it, as ours do; else by name. */
    unsigned order = 0;
    hid_t root = stk_h5.Gopen2(h5, "/", H5P_DEFAULT);
    hid_t plist = root < 0 ? -1 : stk_h5.Gget_create_plist(root);
    if (plist >= 0)
        (void)stk_h5.Pget_link_creation_order(plist, &order);
    if (plist >= 0)
        stk_h5.Pclose(plist);
    H5_index_t by = order & H5P_CRT_ORDER_TRACKED ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
    herr_t rc = root < 0 || v.how < 0 || stk_h5.Pset_elink_cb(v.how, refuse_file, NULL) < 0
                    ? -1
                    : stk_h5.Lvisit(root, by, H5_ITER_INC, visit_link, &v);
    *set = v.set;
    *n = v.n;
    if (rc < 0) /* before the next call overwrites the reason */
        (void)stk_h5_failed(stk_src_path(f->src), "find the datasets", &why);
    if (root >= 0)
        stk_h5.Gclose(root);
    if (v.how >= 0)
        stk_h5.Pclose(v.how);
    if (rc != 0 && err)
        *err = why;
    return rc == 0 ? 0 : why.code;
}

void stk_h5_forget(struct stk_h5_dataset *set, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(set[i].name);
        free(set[i].path);
    }
    free(set);
}
#else
typedef int stk_no_hdf5_find; /* a file must declare something */
#endif
