# in the job script, before training; once per node:
(cd "$SOURCE" && find . -type f \( $PATTERNS \) -print0) > files.txt
$EACH_NODE bash -o pipefail -c "$COPY"
# then read "$TARGET"/"$NAME" instead of "$SOURCE"
