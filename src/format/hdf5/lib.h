/*
 * lib.h - libhdf5, loaded when the first HDF5 file is opened.
 *
 * It pulls in some 40 other libraries (curl, Kerberos, LDAP, ...), which took more than half of the
 * startup time of every command. So it is not linked: the functions below are looked up at run
 * time. `stk_h5.Fopen` is H5Fopen, `*stk_h5.T_STD_I8LE` is H5T_STD_I8LE.
 */
#ifndef STK_FORMAT_HDF5_LIB_H
#define STK_FORMAT_HDF5_LIB_H

#define H5_USE_110_API /* the functions of 1.10, even if the library is newer */
#include <hdf5.h>

/* Constants such as H5F_ACC_RDONLY call these first: stk_h5_start() has done that. */
#undef H5CHECK
#define H5CHECK
#undef H5OPEN
#define H5OPEN

#include "base/err.h"

/* clang-format off */
#define STK_H5_FUNCTIONS(X) \
    X(Aclose) X(Acreate2) X(Aexists) X(Aget_space) X(Aget_storage_size) X(Aget_type) X(Aopen) \
    X(Aread) X(Awrite) \
    X(Dclose) X(Dcreate2) X(Dget_chunk_info) X(Dget_create_plist) X(Dget_num_chunks) X(Dget_offset) \
    X(Dget_space) X(Dget_type) X(Dopen2) X(Dread) X(Dread_chunk) X(Dset_extent) X(Dwrite) \
    X(Dwrite_chunk) \
    X(Eclear2) X(Eset_auto2) X(Ewalk2) \
    X(FDregister) X(Fclose) X(Fcreate) X(Fget_create_plist) X(Fopen) \
    X(Gclose) X(Gget_create_plist) X(Gopen2) \
    X(Lvisit) \
    X(Oget_info) X(Oget_info_by_name) \
    X(Pclose) X(Pcreate) X(Pfill_value_defined) X(Pget_external_count) X(Pget_fill_value) \
    X(Pget_filter2) X(Pget_link_creation_order) X(Pget_nfilters) X(Pget_sizes) \
    X(Pget_userblock) \
    X(Pset_chunk) X(Pset_create_intermediate_group) X(Pset_deflate) X(Pset_driver) \
    X(Pset_elink_cb) X(Pset_fapl_log) \
    X(Pset_fill_time) X(Pset_libver_bounds) X(Pset_link_creation_order) X(Pset_obj_track_times) \
    X(Pset_shuffle) \
    X(Sclose) X(Screate) X(Screate_simple) X(Sget_simple_extent_dims) \
    X(Sget_simple_extent_npoints) X(Sget_simple_extent_type) X(Sselect_hyperslab) \
    X(Tclose) X(Tcopy) X(Tdetect_class) X(Tenum_create) X(Tenum_insert) X(Tequal) \
    X(Tget_array_dims2) X(Tget_array_ndims) X(Tget_class) X(Tget_cset) X(Tget_ebias) \
    X(Tget_fields) X(Tget_member_name) X(Tget_member_offset) X(Tget_member_type) \
    X(Tget_member_value) X(Tget_nmembers) X(Tget_order) X(Tget_precision) X(Tget_sign) \
    X(Tget_size) X(Tget_strpad) X(Tget_super) X(Tis_variable_str) X(Tset_ebias) X(Tset_fields) \
    X(Tset_size) X(Tset_strpad) \
    X(dont_atexit) \
    X(free_memory) \
    X(get_libversion) \
    X(open)
#define STK_H5_TYPES(X) \
    X(C_S1) \
    X(IEEE_F32LE) X(IEEE_F64LE) \
    X(STD_I16LE) X(STD_I32LE) X(STD_I64LE) X(STD_I8LE) X(STD_U16LE) X(STD_U32LE) X(STD_U64LE) \
    X(STD_U8LE)
#define STK_H5_CLASSES(X) \
    X(DATASET_CREATE) \
    X(FILE_ACCESS) X(FILE_CREATE) \
    X(LINK_ACCESS) X(LINK_CREATE)
/* clang-format on */

struct stk_h5_library {
#define STK_H5_MEMBER(name) __typeof__(H5##name) *name;
    STK_H5_FUNCTIONS(STK_H5_MEMBER)
#undef STK_H5_MEMBER
#define STK_H5_MEMBER(name) const hid_t *T_##name;
    STK_H5_TYPES(STK_H5_MEMBER)
#undef STK_H5_MEMBER
#define STK_H5_MEMBER(name) const hid_t *P_##name;
    STK_H5_CLASSES(STK_H5_MEMBER)
#undef STK_H5_MEMBER
};

extern struct stk_h5_library stk_h5;

/* Fills stk_h5, once. STK_E_UNSUPPORTED: libhdf5 is not installed, or differs from the version at
 * build time. */
int stk_h5_load(struct stk_err *err);
/* Loads and starts it, before any other use: it then reads its settings from the environment. */
int stk_h5_start(struct stk_err *err);

#endif
