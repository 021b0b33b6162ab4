find "$SOURCE" -type f > files.txt.new && mv files.txt.new files.txt    # once; then read files.txt, sorted if you sort the folder
