/* A resource manager, and a program that is managed: `manager manage` puts every task on the last
   host, until another wants to manage; `manager use N` spawns N children, waits for their ends, and
   asks after hosts and tasks; `manager child` is one of them; `manager over` registers beside the
   first and is handed the role; `manager hang` never answers; `manager config` asks it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pvm3.h>
#include <pvmproto.h>

#define TEXTS 64
#define TEXT 4096

static char texts[TEXTS][TEXT];

static int strings(char (*into)[TEXT])
{
    int n, i;
    pvm_upkint(&n, 1, 1);
    for (i = 0; i < n && i < TEXTS; i++)
        pvm_upkstr(into[i]);
    return n;
}

static void answer(int who, int tag, struct pvmminfo *info)
{
    pvm_setminfo(pvm_getsbuf(), info);
    pvm_send(who, tag);
}

static void place(int who, int where, struct pvmminfo *info)
{
    static char file[TEXT], at[TEXT], env[TEXTS][TEXT];
    int flags, count, args, out[6], vars, one = 1, i, j, tid, acks, from;
    static int tids[64];
    pvm_upkstr(file);
    pvm_upkint(&flags, 1, 1);
    pvm_upkstr(at);
    pvm_upkint(&count, 1, 1);
    args = strings(texts);
    pvm_upkint(out, 6, 1);
    vars = strings(env);
    printf("spawn %d of %s, argument %s\n", count, strrchr(file, '/') + 1, texts[0]);
    for (i = 0; i < count; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&who, 1, 1);
        pvm_pkstr(file);
        pvm_pkint(&flags, 1, 1);
        pvm_pkint(&one, 1, 1);
        pvm_pkint(&args, 1, 1);
        for (j = 0; j < args; j++)
            pvm_pkstr(texts[j]);
        pvm_pkint(out, 6, 1);
        pvm_pkint(&vars, 1, 1);
        for (j = 0; j < vars; j++)
            pvm_pkstr(env[j]);
        pvm_setminfo(pvm_getsbuf(), info);
        pvm_send(where | 0x80000000, SM_EXEC);
        pvm_recv(-1, SM_EXECACK);
        pvm_bufinfo(pvm_getrbuf(), 0, 0, &from);
        pvm_upkint(&acks, 1, 1);
        pvm_upkint(&tid, 1, 1);
        if (acks != 1 || tid < 0 || from > 0 || pvm_tidtohost(tid) != where)
            printf("started %d, %x on %x by %x\n", acks, tid, where, from);
        tids[i] = tid;
    }
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&count, 1, 1);
    pvm_pkint(tids, count, 1);
    answer(who, SM_SPAWN, info);
}

static void hosts(int who, struct pvmminfo *info)
{
    struct pvmhostinfo *list;
    int nhost, narch, one = 1;
    pvm_config(&nhost, &narch, &list);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&one, 1, 1);
    pvm_pkint(&one, 1, 1);
    pvm_pkint(&list[0].hi_tid, 1, 1);
    pvm_pkstr("managed");
    pvm_pkstr(list[0].hi_arch);
    pvm_pkint(&list[0].hi_speed, 1, 1);
    pvm_pkint(&list[0].hi_dsig, 1, 1);
    answer(who, SM_CONFIG, info);
}

static void tasks(int who, struct pvmminfo *info)
{
    int zero = 0, number = 77;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&zero, 1, 1);
    pvm_pkint(&number, 1, 1);
    pvm_pkint(&who, 1, 1);
    pvm_pkint(&zero, 1, 1);
    pvm_pkint(&zero, 1, 1);
    pvm_pkstr("invented");
    pvm_pkint(&number, 1, 1);
    answer(who, SM_TASK, info);
}

static void add(int who, struct pvmminfo *info)
{
    int n = strings(texts), i, count, narch, tid, ints[2];
    static char name[TEXT], arch[TEXT];
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&n, 1, 1);
    for (i = 0; i < n; i++)
        pvm_pkstr(texts[i]);
    pvm_send(0x80000000, SM_ADD);
    pvm_recv(-1, SM_ADDACK);
    pvm_upkint(&count, 1, 1);
    pvm_upkint(&narch, 1, 1);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&count, 1, 1);
    pvm_pkint(&narch, 1, 1);
    for (i = 0; i < count; i++) {
        pvm_upkint(&tid, 1, 1);
        pvm_upkstr(name);
        pvm_upkstr(arch);
        pvm_upkint(ints, 2, 1);
        pvm_pkint(&tid, 1, 1);
        pvm_pkstr(name);
        pvm_pkstr(arch);
        pvm_pkint(ints, 2, 1);
    }
    answer(who, SM_ADDHOST, info);
}

static void delete(int who, struct pvmminfo *info)
{
    int n = strings(texts), i, code = PvmDenied;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&n, 1, 1);
    for (i = 0; i < n; i++)
        pvm_pkint(&code, 1, 1);
    answer(who, SM_DELHOST, info);
}

/* Who wants to hear of the end of which task. */
static int watchers[64][4], watched;

static void notify(int who)
{
    int head[4], i;
    pvm_upkint(head, 4, 1);
    for (i = 0; i < head[3]; i++, watched++) {
        watchers[watched][0] = who;
        watchers[watched][1] = head[2];
        pvm_upkint(&watchers[watched][2], 1, 1);
    }
    printf("notify %d of %d\n", head[0], head[3]);
}

static void over(void)
{
    int tid, status, i;
    pvm_upkint(&tid, 1, 1);
    pvm_upkint(&status, 1, 1);
    printf("a task ended with %d\n", status >> 8);
    for (i = 0; i < watched; i++)
        if (watchers[i][2] == tid) {
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&tid, 1, 1);
            pvm_send(watchers[i][0], watchers[i][1]);
        }
}

/* Manages until another wants to manage. */
static int manage(void)
{
    struct pvmhostinfo *list, *master;
    int nhost, where, who, zero = 0, next;
    struct pvmminfo info;
    pvm_mytid();
    pvm_config(&nhost, 0, &list);
    where = list[nhost - 1].hi_tid;
    printf("no manager: %d\n", pvm_reg_rm(&master));
    printf("first host: %d\n", master->hi_tid == list[0].hi_tid);
    pvm_setopt(PvmResvTids, 1);
    while (pvm_recv(-1, -1) > 0) {
        pvm_getminfo(pvm_getrbuf(), &info);
        who = info.src;
        switch (info.tag) {
        case SM_EXECACK: printf("a task came\n"); break;
        case SM_SPAWN: place(who, where, &info); break;
        case SM_CONFIG: hosts(who, &info); break;
        case SM_TASK: tasks(who, &info); break;
        case SM_ADDHOST: add(who, &info); break;
        case SM_DELHOST: delete(who, &info); break;
        case SM_NOTIFY: notify(who); break;
        case SM_TASKX: over(); break;
        case SM_SCHED:
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&zero, 1, 1);
            answer(who, SM_SCHED, &info);
            next = who;
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&next, 1, 1);
            pvm_send(0x80000000, SM_HANDOFF);
            pvm_exit();
            return 0;
        default: printf("tag %x from %x\n", info.tag, who);
        }
        fflush(stdout);
    }
    return 1;
}

/* Is managed. */
static int use(char *self, int n)
{
    struct pvmhostinfo *list;
    struct pvmtaskinfo *rows;
    char *args[] = {"child", 0}, *name = "nowhere.invalid", *first;
    int tids[64], nhost, narch, ntask, i, started, codes[1];
    pvm_mytid();
    started = pvm_spawn(self, args, PvmTaskDefault, "", n, tids);
    printf("started %d\n", started);
    for (i = 1; i < started; i++)
        if (pvm_tidtohost(tids[i]) != pvm_tidtohost(tids[0]))
            printf("not together\n");
    printf("here: %d\n", pvm_tidtohost(tids[0]) == pvm_tidtohost(pvm_mytid()));
    pvm_notify(PvmTaskExit, 9, started, tids);
    for (i = 0; i < started; i++) {
        int parent, number, siblings;
        pvm_recv(tids[i], 1);
        pvm_upkint(&parent, 1, 1);
        pvm_upkint(&number, 1, 1);
        pvm_upkint(&siblings, 1, 1);
        if (parent != pvm_mytid() || number != 42 || siblings != started)
            printf("parent %x, number %d, %d siblings\n", parent, number, siblings);
        pvm_initsend(PvmDataDefault);
        pvm_send(tids[i], 2);
    }
    for (i = 0; i < started; i++)
        pvm_recv(-1, 9);
    printf("all ended\n");
    pvm_config(&nhost, &narch, &list);
    first = list[0].hi_name;
    printf("%d host, %s\n", nhost, first);
    pvm_tasks(0, &ntask, &rows);
    printf("%d task, %s\n", ntask, rows[0].ti_a_out);
    printf("delhosts %d", pvm_delhosts(&name, 1, codes));
    printf(", %d\n", codes[0]);
    printf("addhosts %d", pvm_addhosts(&name, 1, codes));
    printf(", %d\n", codes[0]);
    pvm_exit();
    return 0;
}

static int child(void)
{
    int parent = pvm_parent(), number = atoi(getenv("NUMBER") ? getenv("NUMBER") : "0");
    int siblings, *list;
    siblings = pvm_siblings(&list);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&parent, 1, 1);
    pvm_pkint(&number, 1, 1);
    pvm_pkint(&siblings, 1, 1);
    pvm_send(parent, 1);
    pvm_recv(parent, 2);
    return 3;
}

/* Takes the role over, and gives it back. */
static int take_over(void)
{
    struct pvmhostinfo *list;
    int nhost;
    printf("allowed: %d\n", pvm_reg_rm(0));
    pvm_config(&nhost, 0, &list);
    printf("again the task itself: %d\n", pvm_reg_rm(0) == pvm_mytid());
    pvm_exit();
    return 0;
}

/* Is asked, and never answers. */
static int hang(void)
{
    printf("no manager: %d\n", pvm_reg_rm(0));
    pvm_recv(-1, SM_CONFIG);
    printf("asked\n");
    pvm_recv(-1, 1);
    return 1;
}

static int config(void)
{
    struct pvmhostinfo *list;
    int nhost = 0;
    pvm_config(&nhost, 0, &list);
    printf("%d hosts\n", nhost);
    pvm_exit();
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 1 && !strcmp(argv[1], "manage"))
        return manage();
    if (argc > 2 && !strcmp(argv[1], "use"))
        return use(argv[0], atoi(argv[2]));
    if (argc > 1 && !strcmp(argv[1], "over"))
        return take_over();
    if (argc > 1 && !strcmp(argv[1], "hang"))
        return hang();
    if (argc > 1 && !strcmp(argv[1], "config"))
        return config();
    if (argc > 1 && !strcmp(argv[1], "child"))
        return child();
    return 2;
}
