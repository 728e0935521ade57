/* Spawns so many tasks of a program, prints what they print, and ends when they have. */
#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0, *tids = malloc((count + 1) * sizeof(int));
    if (count < 1)
        return 2;
    pvm_catchout(stdout);
    printf("%d started\n", pvm_spawn(argv[2], argv + 3, PvmTaskDefault, "", count, tids));
    pvm_exit();
    return 0;
}
