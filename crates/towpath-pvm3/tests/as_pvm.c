/* What programs see in corners of the interface: the same with PVM and with Towpath. Prints a line
 * for each thing asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pvm3.h>

enum { FIRST = 10, RESULT, READY, END, PAIRS = 100 };

/* The context of a process is what it was before; the size of fragments begins anew. */
static void contexts(void)
{
    int context = pvm_newcontext(), before = pvm_mytid(), after;
    pvm_setcontext(context);
    pvm_setopt(PvmFragSize, 65536);
    pvm_setopt(PvmShowTids, 0);
    pvm_exit();
    after = pvm_mytid();
    printf("another task %d, context kept %d, fragments %d, tids shown %d\n", after != before,
           pvm_getcontext() == context, pvm_getopt(PvmFragSize), pvm_getopt(PvmShowTids));
    pvm_setcontext(0);
    pvm_freecontext(context);
}

/* A process that registers in a context of its own and enrols again still hears there. */
static void heard(void)
{
    int context = pvm_newcontext(), me;
    pvm_setcontext(context);
    pvm_exit();
    me = pvm_mytid();
    pvm_initsend(PvmDataDefault);
    pvm_send(me, FIRST);
    printf("heard %d\n", pvm_recv(me, FIRST) > 0);
    pvm_setcontext(0);
    pvm_freecontext(context);
}

static void groups(void)
{
    int me = pvm_mytid();
    pvm_joingroup("as_pvm");
    printf("instance of nobody %d, of 0 %d, of me %d\n", pvm_getinst("as_pvm", -1),
           pvm_getinst("as_pvm", 0), pvm_getinst("as_pvm", me));
    printf("in a group that is not there %d\n", pvm_getinst("as_pvm none", -1));
    pvm_freezegroup("as_pvm", 1);
    printf("instance of nobody in a frozen group %d\n", pvm_getinst("as_pvm", -1));
    printf("barriers for 0 %d, for one %d\n", pvm_barrier("as_pvm", 0), pvm_barrier("as_pvm", 1));
    pvm_lvgroup("as_pvm");
    printf("barrier of a stranger %d\n", pvm_barrier("as_pvm none", 1));
}

static void spawning(void)
{
    int tids[3] = {1, 1, 1};
    printf("nameless program %d", pvm_spawn("", 0, PvmTaskDefault, "", 3, tids));
    printf(": %d %d %d\n", tids[0], tids[1], tids[2]);
    printf("on a host that is not there %d", pvm_spawn("", 0, PvmTaskHost, "none", 1, tids));
    printf(": %d\n", tids[0]);
    printf("none %d, fewer %d\n", pvm_spawn("", 0, 0, "", 0, tids), pvm_spawn("", 0, 0, "", -1, tids));
}

static void handlers(void)
{
    int context = pvm_getcontext();
    int number = pvm_addmhf(-1, FIRST, context, 0);
    printf("handler without a function %d, again %d\n", number, pvm_addmhf(-1, FIRST, context, 0));
    printf("deleted %d\n", pvm_delmhf(number));
}

/* What a child finds before its first call, and after it has left. */
static void child(void)
{
    const char *given = getenv("PVMEPID");
    int number = given ? atoi(given) : -1, context = pvm_getcontext();
    printf("number of the process given %d\n", number == (int)getpid());
    printf("context of the parent %d\n", context != 0 && context == pvm_getcontext());
    printf("set to %d", (pvm_setcontext(context + 1), pvm_getcontext() - context));
    pvm_exit();
    printf(", after leaving %d\n", pvm_getcontext() - context);
}

/* Pairs of messages, as fast as they go: the result of a piece of work, and the wish for another. */
static void work(int parent)
{
    int at;
    for (at = 0; at < PAIRS; at++) {
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, RESULT);
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, READY);
    }
    pvm_recv(parent, END);
}

/* Asks for both in turn. A master that sees the wish of a slave before its result gives it the next
 * piece of work, and takes the result for that of this one. */
static void polling(char *program)
{
    char *args[] = {"work", 0};
    int tid, looks, results = 0, wishes = 0, early = 0;
    if (pvm_spawn(program, args, PvmTaskDefault, "", 1, &tid) != 1)
        exit(1);
    /* Everything is there before it is asked for: nothing is seen because it came just then. */
    sleep(1);
    for (looks = 1; pvm_nrecv(tid, READY) <= 0; looks++)
        ;
    printf("a wish at look %d, ", looks);
    results += pvm_nrecv(tid, RESULT) > 0;
    for (looks = 1; pvm_probe(-1, READY) <= 0; looks++)
        ;
    printf("another at probe %d\n", looks);
    wishes++;
    while (wishes < PAIRS || results < PAIRS) {
        if (wishes < PAIRS && pvm_nrecv(-1, READY) > 0)
            early += ++wishes > results;
        if (results < PAIRS && pvm_nrecv(-1, RESULT) > 0)
            results++;
    }
    printf("wishes before results %d\n", early);
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, END);
}

int main(int argc, char **argv)
{
    char *args[] = {"child", 0};
    const char *part = argc > 1 ? argv[1] : "";
    int tid;
    setvbuf(stdout, 0, _IOLBF, 0);
    pvm_setopt(PvmAutoErr, 0);
    if (strcmp(part, "child") == 0)
        child();
    else if (strcmp(part, "work") == 0)
        work(pvm_parent());
    else if (strcmp(part, "polling") == 0)
        polling(argv[0]);
    else {
        contexts();
        heard();
        groups();
        spawning();
        handlers();
        pvm_setcontext(pvm_newcontext());
        pvm_catchout(stdout);
        pvm_spawn(argv[0], args, PvmTaskDefault, "", 1, &tid);
    }
    pvm_exit();
    return 0;
}
