/* packing.h - numbers stored packed, as the attributes of netCDF describe; for format/hdf5 only. */
#ifndef STK_FORMAT_HDF5_PACKING_H
#define STK_FORMAT_HDF5_PACKING_H

#include "format/codec/scaled.h"
#include "format/hdf5/hdf5.h"

struct stk_h5_packing {
    bool packed;     /* false: the stored numbers are the values */
    bool limited;    /* values may be out of their valid range */
    uint8_t dtype;   /* of the values */
    struct stk_scaled how; /* packed: all but its name and tile */
};

/* Reads the attributes. STK_E_UNSUPPORTED with the reason: they cannot be applied. */
int stk_h5_packing(hid_t ds, const struct stk_h5_type *type, struct stk_h5_packing *out,
                   struct stk_err *err);
/* Makes a column of numbers one of values: sets its type and codec, whose name goes to `codec`. */
int stk_h5_unpack(const struct stk_h5_packing *p, struct stk_lister *l, struct stk_field_spec *spec,
                  char codec[16], struct stk_err *err);

#endif
