#include "cluster/rank.h"
