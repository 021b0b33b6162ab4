lfs setstripe -S "$STRIPE" -c "$COUNT" "$SOURCE"    # for new files in it
