mkdir -p "$TARGET"/"$NAME" && tar -C "$SOURCE" --verbatim-files-from -cf - -T files.txt | tar -C "$TARGET"/"$NAME" -xf -
