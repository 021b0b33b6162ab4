#include "data/plan.h"
