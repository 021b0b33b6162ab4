pbsnodes "$SOURCE"
