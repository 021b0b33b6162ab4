# in the job script, before training; once per node:
$EACH_NODE bash -c "$COPY" || exit 1
# then read them in "$TARGET"
