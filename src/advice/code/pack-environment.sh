tar -cf environment.tar.new -C "$SOURCE" . && mv environment.tar.new environment.tar    # once
# in the job script, once per node; then run it from there:
mkdir -p "$TMPDIR/environment" && tar -xf environment.tar -C "$TMPDIR/environment" || exit 1
