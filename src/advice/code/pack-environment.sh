tar -cf environment.tar -C "$SOURCE" .    # once
# in the job script, once per node; then run it from there:
mkdir -p "$TMPDIR/environment"
tar -xf environment.tar -C "$TMPDIR/environment"
