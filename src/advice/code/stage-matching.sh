# in the job script, before training; once per node:
(cd "$SOURCE" && find . -type f \( $PATTERNS \) -print0) > files.txt || exit 1
$EACH_NODE bash -o pipefail -c "$COPY" || exit 1
# then read "$TARGET"/"$NAME" instead of "$SOURCE"
