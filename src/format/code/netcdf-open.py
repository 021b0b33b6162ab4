netCDF4.Dataset(SOURCE)
