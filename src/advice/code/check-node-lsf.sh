bhosts -l "$SOURCE"
