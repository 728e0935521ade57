/* Calls while another call waits: from signal handlers, from message handlers, from threads; and
   what a task's exit waits for. The first argument says what to try. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <pvm3.h>

static int me, parent, hits;
static char *program;
static jmp_buf out;

/* Waits until a thread of a process sleeps. */
static void until_asleep(int process, int thread) {
    char path[64], line[512];
    sprintf(path, "/proc/%d/task/%d/stat", process, thread);
    for (;;) {
        FILE *file = fopen(path, "r");
        char *end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        if (file) fclose(file);
        if (!file || (end && end[2] == 'S')) return;
    }
}

/* Another process sends this one a signal when it sleeps. */
static void signal_when_asleep(void) {
    int process = getpid();
    if (fork() == 0) {
        until_asleep(process, process);
        kill(process, SIGUSR1);
        _exit(0);
    }
}

static void on_signal(void (*action)(int)) {
    struct sigaction set;
    memset(&set, 0, sizeof set);
    set.sa_handler = action;
    sigaction(SIGUSR1, &set, NULL);
}

static void send(int to, int tag) {
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&tag, 1, 1);
    pvm_send(to, tag);
}

static int spawn(char *what) {
    char *args[] = {what, NULL};
    int tid = 0;
    pvm_spawn(program, args, PvmTaskDefault, "", 1, &tid);
    return tid;
}

static void leave(int signal) {
    (void)signal;
    send(me, 5);
    printf("in the handler: receive %d", pvm_nrecv(me, 5) > 0);
    printf(", leave %d\n", pvm_exit());
    fflush(stdout);
    _exit(0);
}

static void in_signal_handler(void) {
    on_signal(leave);
    signal_when_asleep();
    pvm_recv(-1, 99);
}

static void wake(int signal) {
    (void)signal;
    send(me, 99);
}

static void sent_by_signal_handler(void) {
    on_signal(wake);
    signal_when_asleep();
    printf("received %d\n", pvm_recv(-1, 99) > 0);
}

static void jump(int signal) {
    (void)signal;
    longjmp(out, 1);
}

static void jumped_out(void) {
    on_signal(jump);
    if (setjmp(out) == 0) {
        signal_when_asleep();
        pvm_recv(-1, 99);
    }
    send(me, 3);
    printf("jumped out, received %d\n", pvm_recv(-1, 3) > 0);
}

static int hit(int id) {
    (void)id;
    hits++;
    return 0;
}

static int answer(int id) {
    int len, tag, source, before = pvm_mkbuf(PvmDataDefault);
    hits++;
    pvm_bufinfo(id, &len, &tag, &source);
    before = pvm_setsbuf(before);
    pvm_send(source, 45);
    pvm_freebuf(pvm_setsbuf(before));
    return 0;
}

static void after_other_calls(void) {
    pvm_addmhf(-1, 44, -1, hit);
    spawn("says");
    while (hits == 0) pvm_mstat("nowhere");
    printf("handled %d\n", hits);
}

static void in_barrier(void) {
    pvm_joingroup("g");
    pvm_addmhf(-1, 44, -1, answer);
    spawn("asks");
    printf("barrier %d", pvm_barrier("g", 2));
    printf(", handled %d\n", hits);
}

static int thread_number;

static void *receives(void *unused) {
    __atomic_store_n(&thread_number, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    printf("received %d\n", pvm_recv(-1, 77) > 0);
    return unused;
}

static void *meets(void *unused) {
    __atomic_store_n(&thread_number, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    printf("barrier %d\n", pvm_barrier("g", 2));
    return unused;
}

static void *looks_up(void *unused) {
    __atomic_store_n(&thread_number, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    printf("entry %d\n", pvm_recvinfo("late", 0, PvmMboxWaitForInfo) > 0);
    return unused;
}

static pthread_t waiting(void *(*what)(void *)) {
    pthread_t thread;
    int number;
    pthread_create(&thread, NULL, what, NULL);
    while ((number = __atomic_load_n(&thread_number, __ATOMIC_SEQ_CST)) == 0) {}
    until_asleep(getpid(), number);
    return thread;
}

static void thread_receives(void) {
    pthread_t thread = waiting(receives);
    send(me, 77);
    pthread_join(thread, NULL);
}

/* What a thread waits for comes in while another looks for something else. */
static void thread_receives_from_other(void) {
    int child = spawn("twice");
    pthread_t thread = waiting(receives);
    send(child, 1);
    printf("other %d\n", pvm_recv(child, 78) > 0);
    pthread_join(thread, NULL);
}

static void thread_in_barrier(void) {
    int child;
    pthread_t thread;
    pvm_joingroup("g");
    child = spawn("asks");
    thread = waiting(meets);
    printf("asked %d\n", pvm_recv(child, 44) > 0);
    send(child, 45);
    pthread_join(thread, NULL);
}

static void thread_waits_for_entry(void) {
    pthread_t thread = waiting(looks_up);
    pvm_initsend(PvmDataDefault);
    pvm_putinfo("late", pvm_getsbuf(), PvmMboxDefault);
    pthread_join(thread, NULL);
}

/* In the midst of a call, one from a signal handler gives PvmNotImpl: it is made again. */
#define AGAIN(call) do code = call; while (code == PvmNotImpl)

static void *talks_to_itself(void *tag) {
    int code, i, value, from, with, len;
    for (i = 0; i < 20000; i++) {
        AGAIN(pvm_psend(me, *(int *)tag, (char *)&i, 1, PVM_INT));
        AGAIN(pvm_precv(me, *(int *)tag, (char *)&value, 1, PVM_INT, &from, &with, &len));
        if (code < 0 || value != i) return tag;
    }
    return NULL;
}

static void *meets_itself(void *tag) {
    int code, i;
    for (i = 0; i < 2000; i++) {
        AGAIN(pvm_barrier("itself", 1));
        if (code < 0) return tag;
    }
    return NULL;
}

static void calls(int signal) {
    (void)signal;
    hits += pvm_mytid() == me;
    pvm_nrecv(-1, 99);
}

static void threads_and_signals(void) {
    static int tags[5] = {1, 2, 3, 4, 5};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[5];
    void *wrong;
    int i;
    pvm_setopt(PvmAutoErr, 0);
    pvm_joingroup("itself");
    signal(SIGALRM, calls);
    setitimer(ITIMER_REAL, &often, NULL);
    for (i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, i < 4 ? talks_to_itself : meets_itself, &tags[i]);
    for (i = 0; i < 5; i++) {
        pthread_join(threads[i], &wrong);
        printf("%d %s\n", tags[i], wrong ? "wrong" : "good");
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("handled %d\n", hits > 0);
}

static void complains(int signal) {
    (void)signal;
    hits += pvm_freebuf(999999) < 0;
}

/* Each of these calls fails, and says so on standard error. */
static void complaints(void) {
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    int failed = 0;
    dup2(open("/dev/null", O_WRONLY), 2);
    signal(SIGALRM, complains);
    setitimer(ITIMER_REAL, &often, NULL);
    while (hits < 100) failed += pvm_freebuf(999999) < 0;
    setitimer(ITIMER_REAL, &never, NULL);
    printf("complained %d\n", failed > 0);
}

/* The child ends when this task has left. */
static void caught_no_more(void) {
    FILE *file = tmpfile();
    pvm_catchout(file);
    spawn("stays");
    printf("caught no more %d", pvm_catchout(NULL));
    printf(", left %d\n", pvm_exit());
}

static void output_as_messages(void) {
    int child, tid, code = 1, who;
    pvm_setopt(PvmOutputTid, me);
    pvm_setopt(PvmOutputCode, 321);
    child = spawn("prints");
    while (code != 0) {
        pvm_recv(-1, 321);
        pvm_upkint(&tid, 1, 1);
        pvm_upkint(&code, 1, 1);
        printf("%d %d", tid == child, code);
        if (code < 0 && pvm_upkint(&who, 1, 1) == 0) printf(" %d", who == me);
        printf("\n");
    }
}

static void says(void) { send(parent, 44); }

static void asks(void) {
    pvm_joingroup("g");
    send(parent, 44);
    pvm_recv(parent, 45);
    pvm_barrier("g", 2);
}

static void twice(void) {
    pvm_recv(parent, 1);
    send(parent, 77);
    send(parent, 78);
}

static void stays(void) {
    pvm_notify(PvmTaskExit, 9, 1, &parent);
    pvm_recv(-1, 9);
}

static void prints(void) {
    printf("hello\n");
    fflush(stdout);
}

static const struct {
    const char *name;
    void (*run)(void);
} PARTS[] = {
    {"in_signal_handler", in_signal_handler},
    {"sent_by_signal_handler", sent_by_signal_handler},
    {"jumped_out", jumped_out},
    {"after_other_calls", after_other_calls},
    {"in_barrier", in_barrier},
    {"thread_receives", thread_receives},
    {"thread_receives_from_other", thread_receives_from_other},
    {"thread_in_barrier", thread_in_barrier},
    {"thread_waits_for_entry", thread_waits_for_entry},
    {"threads_and_signals", threads_and_signals},
    {"complaints", complaints},
    {"caught_no_more", caught_no_more},
    {"output_as_messages", output_as_messages},
    {"says", says},
    {"asks", asks},
    {"twice", twice},
    {"stays", stays},
    {"prints", prints},
};

int main(int count, char **args) {
    size_t i;
    program = args[0];
    me = pvm_mytid();
    parent = pvm_parent();
    for (i = 0; count > 1 && i < sizeof PARTS / sizeof *PARTS; i++) {
        if (strcmp(PARTS[i].name, args[1]) == 0) PARTS[i].run();
    }
    pvm_exit();
    return 0;
}
