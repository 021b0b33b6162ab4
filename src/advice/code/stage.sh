# in the job script, before training; once per node:
DATA=$($EACH_NODE stoker stage "$SOURCE" "$TARGET")
# then read "$DATA" instead of "$SOURCE"
