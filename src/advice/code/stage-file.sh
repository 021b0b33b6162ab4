# in the job script, before training; once per node:
$EACH_NODE cp "$SOURCE" "$TARGET"/
# then read "$TARGET"/"$NAME" instead of "$SOURCE"
