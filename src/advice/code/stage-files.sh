# in the job script, before training; once per node:
$EACH_NODE cp $SOURCES "$TARGET"/
# then read them in "$TARGET"
