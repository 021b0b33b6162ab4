# in the job script, before training; once per node:
stoker report "$PROFILE" --list-read "$SOURCE" > files.txt || exit 1
$EACH_NODE bash -o pipefail -c "$COPY" || exit 1
# then read "$TARGET"/"$NAME" instead of "$SOURCE"
