find "$SOURCE" -type f > files.txt    # once; then read files.txt
