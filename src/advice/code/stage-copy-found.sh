mkdir -p "$TARGET"/"$NAME" && tar -C "$SOURCE" --null -cf - -T files.txt | tar -C "$TARGET"/"$NAME" -xf -
