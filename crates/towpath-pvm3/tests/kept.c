/* Long messages that stay with their sender: sent twice, packed further, read again, taken along by
 * a fork. Prints "good" for each step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pvm3.h>

enum { INTS = 20000, SHORTER = 5, DATA = 1, ANSWER };

static int row[INTS];

static void fill(int number)
{
    int at;
    for (at = 0; at < INTS; at++)
        row[at] = at * 2654435761u + number;
}

/* 1: the receive buffer goes on with this row. */
static int follows(int number, int count)
{
    int *got = calloc(INTS, sizeof(int)), good = pvm_upkint(got, count, 1) == PvmOk;
    fill(number);
    good = good && memcmp(got, row, count * sizeof(int)) == 0;
    free(got);
    return good;
}

static void say(const char *what, int good)
{
    printf("%s: %s\n", what, good ? "good" : "BAD");
    fflush(stdout);
}

static int ends_well(int child)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* What comes: row 0 by itself; rows 1 twice; row 1, some of row 2, row 3. */
static void receiver(int parent)
{
    int good = 1, turn;
    pvm_recv(parent, DATA);
    good &= follows(0, INTS);
    for (turn = 0; turn < 2; turn++) {
        pvm_recv(parent, DATA);
        good &= follows(1, INTS) && pvm_upkint(row, 1, 1) == PvmNoData;
    }
    pvm_recv(parent, DATA);
    good &= follows(1, INTS) && follows(2, SHORTER) && follows(3, INTS);
    pvm_initsend(PvmDataRaw);
    pvm_pkint(&good, 1, 1);
    fill(4);
    pvm_pkint(row, INTS, 1);
    pvm_send(parent, ANSWER);
}

static void pack(int number, int count)
{
    fill(number);
    pvm_pkint(row, count, 1);
}

int main(int argc, char **argv)
{
    int encoding = argc > 1 && strcmp(argv[1], "raw") == 0 ? PvmDataRaw : PvmDataDefault;
    int parent = pvm_parent(), tid, id, good = 0, child;
    struct timeval patience = {20, 0};
    pvm_setopt(PvmAutoErr, 0);
    if (parent > 0) {
        receiver(parent);
        pvm_exit();
        return 0;
    }
    if (pvm_spawn(argv[0], 0, PvmTaskDefault, "", 1, &tid) != 1)
        return 1;
    /* The first long message makes the two meet. */
    pvm_initsend(encoding);
    pack(0, INTS);
    pvm_send(tid, DATA);
    id = pvm_initsend(encoding);
    pack(1, INTS);
    pvm_send(tid, DATA);
    pvm_send(tid, DATA);
    pack(2, SHORTER);
    pack(3, INTS);
    pvm_send(tid, DATA);
    pvm_recv(tid, ANSWER);
    pvm_upkint(&good, 1, 1);
    say("received", good);
    child = fork();
    if (child == 0) {
        good = follows(4, INTS);
        pvm_setrbuf(id);
        good &= follows(1, INTS) && follows(2, SHORTER) && follows(3, INTS);
        /* Another task, which frees what it inherited. */
        good &= pvm_mytid() > 0 && pvm_freebuf(id) == PvmOk && pvm_exit() == PvmOk;
        _exit(!good);
    }
    say("kept by a child", ends_well(child));
    good = follows(4, INTS);
    pvm_setrbuf(id);
    good &= follows(1, INTS) && follows(2, SHORTER) && follows(3, INTS);
    say("kept", good);
    /* The receive buffer would go with the task. */
    pvm_setsbuf(id);
    pvm_exit();
    good = pvm_mytid() > 0 && pvm_send(pvm_mytid(), DATA) == PvmOk;
    good &= pvm_trecv(-1, DATA, &patience) > 0;
    good &= follows(1, INTS) && follows(2, SHORTER) && follows(3, INTS);
    say("sent by another task", good);
    pvm_exit();
    return 0;
}
