h5repack -l CONTI -f NONE "$SOURCE" "$TARGET"   # once; needs the uncompressed size
