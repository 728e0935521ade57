/* `tasker serve N` starts tasks until N have ended; `tasker hang` never does; `tasker use` spawns two
   children, kills one, and says what it sees of them; `tasker try` spawns one; `tasker kill` one
   that it kills by SIGKILL; `tasker child`, `tasker endless` and `tasker say` are such. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pvm3.h>
#include <pvmproto.h>

/* PVM's own, which its header does not have. */
int pvmendtask(void);
int pvmputenv(char *);

#define TEXTS 64
#define TEXT 4096

static struct { int tid, pid; } started[64];
static int count;

static char *string(void)
{
    char *text = malloc(TEXT);
    pvm_upkstr(text);
    return text;
}

static void start(void)
{
    int tid, flags, args, vars, i, pid, from;
    char *path, *argv[TEXTS] = {0}, *env[TEXTS];
    pvm_bufinfo(pvm_getrbuf(), 0, 0, &from);
    pvm_upkint(&tid, 1, 1);
    pvm_upkint(&flags, 1, 1);
    path = string();
    pvm_upkint(&args, 1, 1);
    for (i = 0; i < args; i++)
        argv[i] = string();
    pvm_upkint(&vars, 1, 1);
    for (i = 0; i < vars && i < TEXTS; i++)
        env[i] = string();
    printf("start %s, %d, of a daemon: %d\n", argv[1], flags, from < 0);
    pid = fork();
    if (pid == 0) {
        pvmendtask();
        for (i = 0; i < vars && i < TEXTS; i++)
            pvmputenv(env[i]);
        execv(path, argv);
        _exit(1);
    }
    started[count].tid = tid;
    started[count++].pid = pid;
}

static int serve(int ends)
{
    struct timeval little = {0, 20000};
    int pid, status, i, zero[4] = {0};
    pvm_setopt(PvmResvTids, 1);
    printf("tasker: %d\n", pvm_reg_tasker());
    while (ends > 0) {
        if (pvm_trecv(-1, SM_STTASK, &little) > 0)
            start();
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            for (i = 0; i < count; i++)
                if (started[i].pid == pid) {
                    pvm_initsend(PvmDataDefault);
                    pvm_pkint(&started[i].tid, 1, 1);
                    pvm_pkint(&status, 1, 1);
                    pvm_pkint(zero, 4, 1);
                    pvm_send(0x80000000, SM_TASKX);
                    printf("end %d\n", status);
                    ends--;
                }
    }
    printf("tasker no more: %d\n", pvm_reg_tasker());
    pvm_exit();
    return 0;
}

static int hang(void)
{
    printf("tasker: %d\n", pvm_reg_tasker());
    pvm_recv(-1, SM_STTASK);
    printf("asked\n");
    pvm_recv(-1, 1);
    return 1;
}

/* What a child says: whether a tasker started it, and whose child it is. */
static void hear(int tid)
{
    int said[2];
    pvm_recv(tid, 1);
    pvm_upkint(said, 2, 1);
    printf("by a tasker: %d, mine: %d\n", said[0], said[1] == pvm_mytid());
}

static int use(char *self)
{
    char *args[] = {"child", 0};
    int tids[2], i, ntask, seen = 0, tid;
    struct pvmtaskinfo *rows;
    pvm_setopt(PvmAutoErr, 0);
    printf("a second one: %d\n", pvm_reg_tasker());
    printf("spawned %d\n", pvm_spawn(self, args, PvmTaskDefault, "", 2, tids));
    pvm_notify(PvmTaskExit, 9, 2, tids);
    hear(tids[0]);
    hear(tids[1]);
    pvm_tasks(0, &ntask, &rows);
    for (i = 0; i < ntask; i++)
        seen += rows[i].ti_ptid == pvm_mytid() && !strcmp(rows[i].ti_a_out, self);
    printf("%d of my children among %d tasks\n", seen, ntask);
    pvm_kill(tids[1]);
    pvm_recv(-1, 9);
    pvm_upkint(&tid, 1, 1);
    printf("killed: %d\n", tid == tids[1]);
    pvm_initsend(PvmDataDefault);
    pvm_send(tids[0], 2);
    pvm_recv(-1, 9);
    pvm_upkint(&tid, 1, 1);
    printf("ended: %d\n", tid == tids[0]);
    pvm_exit();
    return 0;
}

static int try(char *self)
{
    char *args[] = {"child", 0};
    int tid;
    pvm_spawn(self, args, PvmTaskDefault, "", 1, &tid);
    hear(tid);
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 2);
    pvm_exit();
    return 0;
}

static int kill_one(char *self)
{
    char *args[] = {"endless", 0};
    int tid;
    pvm_spawn(self, args, PvmTaskDefault, "", 1, &tid);
    pvm_notify(PvmTaskExit, 9, 1, &tid);
    hear(tid);
    printf("killed: %d\n", pvm_sendsig(tid, SIGKILL));
    pvm_recv(-1, 9);
    pvm_exit();
    return 0;
}

static int child(int endless)
{
    int said[2] = {getenv("BY_TASKER") != 0, pvm_parent()};
    pvm_initsend(PvmDataDefault);
    pvm_pkint(said, 2, 1);
    pvm_send(said[1], 1);
    while (endless)
        pause();
    pvm_recv(said[1], 2);
    return 5;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return serve(atoi(argv[2]));
    if (argc > 1 && !strcmp(argv[1], "hang"))
        return hang();
    if (argc > 1 && !strcmp(argv[1], "use"))
        return use(argv[0]);
    if (argc > 1 && !strcmp(argv[1], "say"))
        return printf("said by a child of the tasker: %d\n", getenv("BY_TASKER") != 0), pvm_mytid() < 0;
    if (argc > 1 && !strcmp(argv[1], "try"))
        return try(argv[0]);
    if (argc > 1 && !strcmp(argv[1], "kill"))
        return kill_one(argv[0]);
    return child(argc > 1 && !strcmp(argv[1], "endless"));
}
