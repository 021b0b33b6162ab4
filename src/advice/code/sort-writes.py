import stoker
stoker.save(data, SOURCE)   # ADAPT: all of it at once, when it is complete; the old or the new file is there, whole
