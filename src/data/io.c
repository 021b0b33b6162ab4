#include "data/io.h"
