import netCDF4
f = netCDF4.Dataset("f", memory=open(SOURCE, "rb").read())
