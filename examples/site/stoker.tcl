#%Module1.0
# stoker.tcl - a module file for Environment Modules: MODULEPATH/stoker/VERSION. Set `prefix` to the PREFIX
# of `make install PREFIX=...`; nothing else depends on the site.
set prefix /opt/stoker/[file tail [module-info name]]

module-whatis "stoker: finds out why deep-learning jobs wait for their data, and mends it"
proc ModulesHelp {} {
    puts stderr "Begin with: stoker profile -- python train.py; stoker report."
}

prepend-path PATH $prefix/bin
prepend-path MANPATH $prefix/share/man
append-path MANPATH {} ;# an empty part is the pages of the system
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
prepend-path PYTHONPATH $prefix/python
