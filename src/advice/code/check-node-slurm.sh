scontrol show node "$SOURCE"; sacct -N "$SOURCE" -S now-1hour
