# $INTRO
stoker pack "$SOURCE" "$TARGET" --format "$FORMAT" --shards "$COUNT" --shard-size "$BYTES" --shuffle "$DEPTH" --compress "$CODEC"
