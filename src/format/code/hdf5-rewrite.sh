h5repack -l CONTI -f NONE "$SOURCE" "$TARGET".new && mv "$TARGET".new "$TARGET"   # once; needs the uncompressed size
