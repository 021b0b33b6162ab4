#include "stoker.h"
