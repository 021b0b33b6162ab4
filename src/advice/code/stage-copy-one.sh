cp "$SOURCE" "$TARGET"/"$NAME".new && mv -f "$TARGET"/"$NAME".new "$TARGET"/"$NAME"
