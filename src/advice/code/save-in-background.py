import copy, threading
threading.Thread(target=save, args=(copy.deepcopy(state),)).start()
