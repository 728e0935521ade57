/* Does calls of the PVM interface in several tasks, and prints what they give: the first one reads
 * lines `WHO CALL A B C D`, and has each done by the task it is for, or, where it is none's, by all
 * at once; the next line comes when all that was sent has been received. So the output must be the
 * same with PVM and with Towpath.
 *
 *   together COUNT     reads lines, with so many tasks
 *   together worker    does what the first one says
 */
#define main alone
#include "script.c"
#undef main
#include <sched.h>

#define TASKS_MAX 8
/* Context and tags of what tasks say to each other for this. */
#define CONTROL 54321
#define LINE 999990
#define DID 999991
#define PASSED 999992
#define GONE 999993
#define STARTED 999994
/* Tags of notices about the end of tasks, by their numbers in the row. */
#define ENDED 20

static int tasks[TASKS_MAX], count, self;
static int gone[TASKS_MAX];
/* Contexts + 1 in which this task has asked for a notice. */
static int noticed[TASKS_MAX];

/* What the calls of this file must leave as it was. */
struct state {
    int context, sending, receiving;
    int (*match)(int, int, int);
};

static struct state begin(void)
{
    struct state state;
    state.context = pvm_setcontext(CONTROL);
    state.sending = pvm_setsbuf(0);
    state.receiving = pvm_setrbuf(0);
    state.match = pvm_recvf(0);
    return state;
}

static void end(struct state state)
{
    pvm_freebuf(pvm_setsbuf(state.sending));
    pvm_freebuf(pvm_setrbuf(state.receiving));
    pvm_recvf(state.match);
    pvm_setcontext(state.context);
}

static void tell(int to, int tag, const char *text)
{
    struct state state = begin();
    pvm_initsend(PvmDataDefault);
    pvm_pkstr((char *)text);
    pvm_send(to, tag);
    end(state);
}

static void hear(int from, int tag, char *text)
{
    struct state state = begin();
    pvm_recv(from, tag);
    if (text)
        pvm_upkstr(text);
    end(state);
}

/* A task by its number in the row. */
static void name(int tid)
{
    int at;
    for (at = 0; at < count; at++)
        if (tasks[at] == tid) {
            printf(" task%d", at);
            return;
        }
    printf(tid >= 0 ? " other" : " %d", tid);
}

static void came(int id)
{
    int len, tag, from;
    buffer(id);
    if (id > 0) {
        pvm_bufinfo(id, &len, &tag, &from);
        printf(" len %d tag %d from", len, tag);
        if (tag >= ENDED && tag < ENDED + TASKS_MAX && len == 4) {
            pvm_upkint(&from, 1, 1);
            printf(" daemon:");
        }
        name(from);
    }
}

static void reduced(int *data, int code)
{
    printf(" %d: %d %d %d", code, data[0], data[1], data[2]);
}

/* All at once, as members of a group. */
static void meet(char *group, int what, int root)
{
    int data[3], rows[3 * TASKS_MAX], at, size = pvm_gsize(group), inst = pvm_getinst(group, me);
    void (*how)() = what == 1 ? PvmSum : what == 2 ? PvmMax : PvmMin;
    root %= size;
    for (at = 0; at < 3; at++)
        data[at] = (self + 2) * (at - 1) * 10 + at;
    for (at = 0; at < 3 * TASKS_MAX; at++)
        rows[at] = 100 + at;
    printf(" inst %d of %d:", inst, size);
    switch (what) {
    case 0:
        printf(" %d", pvm_barrier(group, size));
        break;
    case 1:
    case 2:
    case 3:
        at = pvm_reduce(how, data, 3, PVM_INT, 7, group, root);
        if (inst != root)
            data[0] = data[1] = data[2] = 0;
        reduced(data, at);
        break;
    case 4:
        printf(" %d", pvm_gather(rows, data, 3, PVM_INT, 8, group, root));
        for (at = 0; inst == root && at < 3 * size; at++)
            printf(" %d", rows[at]);
        break;
    default:
        at = pvm_scatter(data, rows, 3, PVM_INT, 9, group, root);
        reduced(data, at);
    }
    /* Nobody leaves before all are through. PVM's scatter leaves no send buffer. */
    pvm_barrier(group, size);
    forget(pvm_getsbuf());
    pvm_initsend(PvmDataDefault);
}

/* A call of this task. */
static void step(const char *line)
{
    char call[32], group[32];
    int a = 0, b = 0, c = 0, d = 0, to[TASKS_MAX], at, n;
    struct timeval none = {0, 0};
    if (sscanf(line, "%31s %d %d %d %d", call, &a, &b, &c, &d) < 1)
        return;
    sprintf(group, "grp%d%s", a % 3, own);
    if (IS("to"))
        result(pvm_send(tasks[a % count], b));
    else if (IS("cast")) {
        for (at = n = 0; at < count; at++)
            if (a & 1 << at)
                to[n++] = tasks[at];
        result(pvm_mcast(to, n, b));
    } else if (IS("from")) {
        forget(pvm_getrbuf());
        came(pvm_nrecv(a < 0 ? -1 : tasks[a % count], b));
    } else if (IS("look"))
        came(pvm_probe(a < 0 ? -1 : tasks[a % count], b));
    else if (IS("soon")) {
        forget(pvm_getrbuf());
        came(pvm_trecv(a < 0 ? -1 : tasks[a % count], b, &none));
    } else if (IS("psendto")) {
        static double data[COUNT] = {1, 2, 3, 4, 5};
        result(pvm_psend(tasks[a % count], b, data, c, PVM_DOUBLE));
    } else if (IS("instof"))
        printf(" %d", pvm_getinst(group, tasks[b % count]));
    else if (IS("tidof"))
        name(pvm_gettid(group, b));
    else if (IS("statof"))
        printf(" %d", pvm_pstat(tasks[a % count]));
    else if (IS("notice")) {
        a %= count;
        if (noticed[a] || gone[a] || a == self)
            return;
        noticed[a] = pvm_getcontext() + 1;
        result(pvm_notify(PvmTaskExit, ENDED + a, 1, tasks + a));
    } else if (IS("meet"))
        meet(group, b, c);
    else if (IS("passed"))
        tell(tasks[a], PASSED, "");
    else if (IS("await"))
        hear(tasks[a], PASSED, 0);
    else if (IS("gone")) {
        gone[a] = 1;
        if (noticed[a]) {
            struct state state = begin();
            pvm_setcontext(noticed[a] - 1);
            while (pvm_probe(-1, ENDED + a) == 0)
                sched_yield();
            end(state);
        }
    } else
        run(call, a, b, c, d);
    /* To itself, too. */
    if (IS("to") || IS("cast") || IS("psendto"))
        settle();
}

static void join_machine(int first)
{
    pvm_setopt(PvmAutoErr, 0);
    sprintf(own, "-%x", first);
}

static void worker(void)
{
    char line[128], *said;
    size_t len;
    int parent = pvm_parent();
    FILE *out = stdout;
    struct state state = begin();
    join_machine(parent);
    pvm_recv(parent, STARTED);
    pvm_upkint(&count, 1, 1);
    pvm_upkint(&self, 1, 1);
    pvm_upkint(tasks, count, 1);
    end(state);
    pvm_setcontext(0);
    for (;;) {
        hear(parent, LINE, line);
        if (strcmp(line, "end") == 0)
            break;
        stdout = open_memstream(&said, &len);
        step(line);
        fclose(stdout);
        stdout = out;
        tell(parent, DID, said);
        free(said);
    }
    pvm_exit();
}

static char text[65536];

/* Has a task do a call; what it has printed. */
static void start(int who, const char *line)
{
    if (who && !gone[who])
        tell(tasks[who], LINE, line);
}

static const char *finish(int who, const char *line)
{
    strcpy(text, "");
    if (who == 0) {
        FILE *out = stdout;
        char *said;
        size_t len;
        stdout = open_memstream(&said, &len);
        step(line);
        fclose(stdout);
        stdout = out;
        snprintf(text, sizeof text, "%s", said);
        free(said);
    } else if (gone[who])
        strcpy(text, " gone");
    else
        hear(tasks[who], DID, text);
    return text;
}

static void done_by(int who, const char *line, int shown)
{
    const char *said;
    start(who, line);
    said = finish(who, line);
    if (shown || *said)
        printf("%d %s:%s\n", who, line, said);
}

/* Waits until what one task has sent to all is there; handlers may print. */
static void pass_on(int who)
{
    char line[64];
    int at;
    for (at = 0; at < count; at++)
        if (!gone[at] && !gone[who] && at != who) {
            sprintf(line, "passed %d", at);
            done_by(who, line, 0);
            sprintf(line, "await %d", who);
            done_by(at, line, 0);
        }
}

static void leave(int who)
{
    char line[64];
    int at;
    if (who == 0 || gone[who])
        return;
    tell(tasks[who], LINE, "end");
    hear(-1, GONE, 0);
    sprintf(line, "gone %d", who);
    for (at = 0; at < count; at++)
        if (at != who && !gone[at])
            done_by(at, line, 0);
    gone[who] = 1;
}

static void together(int who, const char *line)
{
    int group = 0, at;
    char joined[64];
    (void)who;
    sscanf(line, "meet %d", &group);
    sprintf(joined, "join %d", group);
    for (at = 0; at < count; at++)
        done_by(at, joined, 1);
    for (at = 0; at < count; at++)
        start(at, line);
    for (at = 0; at < count; at++)
        printf("%d %s:%s\n", at, line, finish(at, line));
}

static void first(char *program, int wanted)
{
    char line[128], *args[] = {"worker", 0};
    int who, skip, at;
    struct state state = begin();
    join_machine(me);
    count = wanted;
    tasks[0] = me;
    if (pvm_spawn(program, args, PvmTaskDefault, 0, count - 1, tasks + 1) != count - 1)
        exit(4);
    pvm_notify(PvmTaskExit, GONE, count - 1, tasks + 1);
    for (at = 1; at < count; at++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&count, 1, 1);
        pvm_pkint(&at, 1, 1);
        pvm_pkint(tasks, count, 1);
        pvm_send(tasks[at], STARTED);
    }
    end(state);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%d %n", &who, &skip) < 1)
            continue;
        who %= count;
        if (strncmp(line + skip, "meet", 4) == 0)
            together(who, line + skip);
        else if (strncmp(line + skip, "end ", 4) == 0)
            leave(who);
        else
            done_by(who, line + skip, 1);
        pass_on(who);
        fflush(stdout);
    }
    for (at = 1; at < count; at++)
        leave(at);
}

int main(int argc, char **argv)
{
    me = pvm_mytid();
    if (me < 0 || argc < 2)
        return 3;
    if (strcmp(argv[1], "worker") == 0)
        worker();
    else
        first(argv[0], atoi(argv[1]));
    pvm_exit();
    return 0;
}
