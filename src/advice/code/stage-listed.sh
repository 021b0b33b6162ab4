# in the job script, before training; once per node:
stoker report "$PROFILE" --list-read "$SOURCE" > files.txt
$EACH_NODE bash -o pipefail -c "$COPY"
# then read "$TARGET"/"$NAME" instead of "$SOURCE"
