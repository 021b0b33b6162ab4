qhost -h "$SOURCE" -j
