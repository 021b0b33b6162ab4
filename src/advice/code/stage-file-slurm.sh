# in the job script, before training; once per node:
sbcast "$SOURCE" "$TARGET"/"$NAME"
# then read "$TARGET"/"$NAME" instead of "$SOURCE"
