-- stoker.lua - a module file for Lmod: MODULEPATH/stoker/VERSION.lua. Set `prefix` to the PREFIX of
-- `make install PREFIX=…`; nothing else depends on the site.
local prefix = pathJoin("/opt/stoker", myModuleVersion())

whatis("Name: stoker")
whatis("Description: finds out why deep-learning jobs wait for their data, and mends it")
help([[Begin with: stoker profile -- python train.py; stoker report.]])

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
append_path("MANPATH", "") -- an empty part is the pages of the system
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("PYTHONPATH", pathJoin(prefix, "python"))
