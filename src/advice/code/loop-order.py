# the order is stoker's: another one in each epoch, mixed in windows; shuffle="global": among all samples; "none": as stored
