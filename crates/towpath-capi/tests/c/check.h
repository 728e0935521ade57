/* What the programs of this folder check by: the line that was not right, and what `task` says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "towpath.h"

#ifndef WHY
#define WHY towpath_error(task)
#endif

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, WHY);       \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)
#define OK(call) CHECK((call) == TOWPATH_OK)
