mkdir -p "$TARGET"/"$NAME" && tar -C "$SOURCE" -cf - -T files.txt | tar -C "$TARGET"/"$NAME" -xf -
