# in the job script, before training; once per node:
sbcast "$SOURCE" "$TARGET"/"$NAME" || exit 1
# then read "$TARGET"/"$NAME" instead of "$SOURCE"
