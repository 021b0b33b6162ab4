cat "$SOURCE" > /dev/null     # once per node, before training
