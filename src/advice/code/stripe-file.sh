lfs migrate -S "$STRIPE" -c "$COUNT" "$SOURCE"
