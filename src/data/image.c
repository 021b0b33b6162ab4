#include "data/image.h"
