f.seek(0); f.write(data)    # everything at once, when it is complete
