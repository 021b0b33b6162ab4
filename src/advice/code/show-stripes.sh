lfs getstripe -v "$SOURCE"    # on Lustre: which targets hold it
