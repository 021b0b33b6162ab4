/*
 * hdf5io.c - a dataset of 100 x 100 ints written whole, read in parts and whole, as HDF5's own
 * calls. What the library does below (any number of calls) is not told here.
 */
/* TRUTH
{"out.h5": {"hdf5": {"opens": 2, "closes": 2, "writes": 1, "write_bytes": 40000, "reads": 5,
                     "read_bytes": 92000, "errors": 1},
            "posix": "any"},
 "missing.h5": {"hdf5": {"errors": 1}, "posix": "any"}}
*/
#include "truth.h"

#include <hdf5.h>

static int values[100 * 100];

static void write_all(void)
{
    hsize_t size[2] = {100, 100};
    hid_t file = H5Fcreate("out.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, size, NULL);
    hid_t set = H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    MUST(file >= 0 && space >= 0 && set >= 0);
    MUST(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    MUST(H5Dclose(set) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
}

static void read_parts(void)
{
    hsize_t size[2] = {10, 100}, from[2] = {0, 0};
    hid_t file = H5Fopen("out.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t set = H5Dopen2(file, "x", H5P_DEFAULT), space = H5Dget_space(set);
    hid_t memory = H5Screate_simple(2, size, NULL);
    MUST(file >= 0 && set >= 0 && space >= 0);
    for (from[0] = 0; from[0] < 30; from[0] += 10) {
        MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, size, NULL) >= 0);
        MUST(H5Dread(set, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values) >= 0);
    }
    MUST(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    /* as doubles in memory: the file's bytes count */
    double *wide = malloc(100 * 100 * sizeof(*wide));
    MUST(wide && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, wide) >= 0);
    free(wide);
    /* An error must still be on HDF5's stack when the program looks. */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    MUST(H5Dread(set, -1, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0);
    MUST(H5Eget_num(H5E_DEFAULT) > 0);
    MUST(H5Fopen("missing.h5", H5F_ACC_RDONLY, H5P_DEFAULT) < 0);
    MUST(H5Eget_num(H5E_DEFAULT) > 0);
    MUST(H5Sclose(memory) >= 0 && H5Sclose(space) >= 0 && H5Dclose(set) >= 0);
    MUST(H5Fclose(file) >= 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    write_all();
    read_parts();
    return 0;
}
