/* What programs do to a library although they should not: two tasks (`towpath run -n 2`), one of
 * which answers, while the other does what its argument says. Exit status 0: whatever it was, it
 * worked or was an error that says so; nobody hung. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHY (task ? towpath_error(task) : why)
#include "check.h"

enum { ECHO = 1, COUNT = 2, LONG = 1 << 20 };

static const int64_t MINUTE = INT64_C(60000000000);
static char why[256];

/* Answers until the other has ended; says how many it only counted. */
static void answer(towpath_task *task, towpath_id peer)
{
    towpath_wanted any = {0};
    towpath_message *message;
    towpath_received about;
    towpath_event event;
    uint64_t watch;
    int counted = 0, over = 0, code;

    any.any_tag = 1;
    OK(towpath_watch_task(task, peer, &watch));
    while (!over) {
        while ((code = towpath_recv(task, &any, 0, &message)) == TOWPATH_OK) {
            towpath_message_about(message, &about);
            counted += about.tag == COUNT;
            if (about.tag == ECHO) {
                code = towpath_send(task, about.source, ECHO, towpath_message_bytes(message),
                                    about.len);
                CHECK(code == TOWPATH_OK || code == TOWPATH_E_NO_TASK);
            }
            towpath_message_free(message);
        }
        CHECK(code == TOWPATH_NONE);
        while (towpath_next_event(task, &event) == TOWPATH_OK)
            over |= event.kind == TOWPATH_TASK_ENDED && event.task == peer;
        if (!over)
            CHECK(towpath_wait(task, MINUTE) == TOWPATH_OK);
    }
    printf("counted %d\n", counted);
}

/* To the other and back. */
static void trips(towpath_task *task, towpath_id peer, int count, size_t len)
{
    static char out[LONG], back[LONG];
    towpath_wanted echo = {0};
    towpath_received about;

    echo.source = peer;
    echo.tag = ECHO;
    while (count--) {
        memset(out, 'a' + count % 26, len);
        OK(towpath_send(task, peer, ECHO, out, len));
        OK(towpath_recv_into(task, &echo, back, sizeof back, TOWPATH_FOREVER, &about));
        CHECK(about.len == len && memcmp(out, back, len) == 0);
    }
}

static void forks(towpath_task *task, towpath_id peer)
{
    towpath_task *parents = task;
    towpath_id own = towpath_self(task);
    towpath_message *message;
    int status;
    pid_t child;

    trips(task, peer, 20, 100);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(towpath_send(parents, peer, COUNT, "x", 1) == TOWPATH_E_FORKED);
        CHECK(towpath_recv(parents, NULL, 0, &message) == TOWPATH_E_FORKED);
        CHECK(towpath_recv(parents, NULL, MINUTE, &message) == TOWPATH_E_FORKED);
        CHECK(towpath_poll(parents) == TOWPATH_E_FORKED);
        CHECK(towpath_arm(parents) == TOWPATH_E_FORKED);
        CHECK(towpath_leave(parents) == TOWPATH_E_FORKED);
        task = NULL;
        OK(towpath_enrol(&task, why, sizeof why));
        CHECK(towpath_self(task) != own);
        trips(task, peer, 20, 100);
        OK(towpath_send(task, peer, COUNT, "the child", 9));
        OK(towpath_leave(task));
        _exit(0);
    }
    trips(task, peer, 200, 100);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    trips(task, peer, 20, 5000);
    OK(towpath_send(task, peer, COUNT, "the parent", 10));
    OK(towpath_leave(task));
}

static void closes(towpath_task *task, towpath_id peer)
{
    struct rlimit limit;
    towpath_message *message;
    int fd, code = TOWPATH_OK, sent;

    trips(task, peer, 20, 100);
    OK(getrlimit(RLIMIT_NOFILE, &limit));
    for (fd = 3; fd < (int)limit.rlim_max && fd < 1 << 20; fd++)
        close(fd);
    for (sent = 0; code == TOWPATH_OK && sent < 10000; sent++)
        code = towpath_recv(task, NULL, MINUTE, &message);
    CHECK(code == TOWPATH_E_LOST);
    CHECK(strlen(towpath_error(task)) > 0);
    CHECK(towpath_send(task, peer, COUNT, "x", 1) == TOWPATH_E_LOST);
    CHECK(towpath_poll(task) == TOWPATH_E_LOST);
    towpath_leave(task);
}

enum { THREADS = 10000 };
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER, start = PTHREAD_MUTEX_INITIALIZER;
static towpath_task *shared_task;
static towpath_id shared_peer;

/* Once when it pleases, which may be an error, and once in turn, which must not be. */
static void *thread(void *unused)
{
    towpath_task *task = shared_task;
    int code;

    pthread_mutex_lock(&start);
    pthread_mutex_unlock(&start);
    code = towpath_poll(task);
    CHECK(code == TOWPATH_OK || code == TOWPATH_NONE || code == TOWPATH_E_BUSY);
    pthread_mutex_lock(&turn);
    do /* Another one may just be polling out of turn. */
        code = towpath_send(task, shared_peer, COUNT, "thread", 6);
    while (code == TOWPATH_E_BUSY);
    CHECK(code == TOWPATH_OK);
    pthread_mutex_unlock(&turn);
    return unused;
}

static void threads(towpath_task *task, towpath_id peer)
{
    static pthread_t all[THREADS];
    pthread_attr_t small;
    int count = 0, code = 0, i;

    trips(task, peer, 20, 100);
    shared_task = task;
    shared_peer = peer;
    OK(pthread_attr_init(&small));
    OK(pthread_attr_setstacksize(&small, 128 << 10));
    pthread_mutex_lock(&start);
    while (count < THREADS && code == 0) {
        code = pthread_create(&all[count], &small, thread, NULL);
        count += code == 0;
    }
    pthread_mutex_unlock(&start);
    for (i = 0; i < count; i++)
        OK(pthread_join(all[i], NULL));
    CHECK(code == 0 || code == EAGAIN); /* As many as this machine lets it have. */
    trips(task, peer, 20, 5000);
    OK(towpath_leave(task));
    printf("threads %d\n", count);
}

enum { STARTED = 20000, SHELF = 16 };
static towpath_pending *pendings[SHELF];
static towpath_output *outputs[SHELF];

/* Frees what it finds there, without the task's handle, until a place says that there is no more. */
static void *free_all(void *end)
{
    int at;
    for (at = 0;; at = (at + 1) % SHELF) {
        towpath_pending *pending = __atomic_exchange_n(&pendings[at], NULL, __ATOMIC_ACQ_REL);
        if ((void *)pending == end)
            return NULL;
        towpath_pending_free(pending);
        towpath_output_free(__atomic_exchange_n(&outputs[at], NULL, __ATOMIC_ACQ_REL));
    }
}

/* One thread starts operations of a team, another drops them: it holds the team at no time. */
static void frees(towpath_task *task)
{
    towpath_id own = towpath_self(task);
    towpath_team *alone;
    towpath_part part = {"sum", 3};
    towpath_operation all = {0};
    pthread_t thread;
    int n, end;

    all.what = TOWPATH_OP_ALL_GATHER;
    all.parts = &part;
    all.count = 1;
    OK(towpath_team_of(task, &own, 1, &alone));
    OK(pthread_create(&thread, NULL, free_all, &end));
    for (n = 0; n < STARTED; n++) {
        towpath_pending *pending, **free = &pendings[n % SHELF];
        int code;
        /* A count that went astray leaves operations behind that nobody can ask for. */
        do
            code = towpath_start(task, alone, &all, &pending);
        while (code == TOWPATH_E_LIMIT && __atomic_load_n(free, __ATOMIC_ACQUIRE));
        OK(code);
        if (n % 2)
            OK(towpath_perform(task, alone, &all, &outputs[n % SHELF]));
        while (__atomic_load_n(free, __ATOMIC_ACQUIRE))
            sched_yield();
        __atomic_store_n(free, pending, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&pendings[SHELF - 1], (towpath_pending *)&end, __ATOMIC_RELEASE);
    OK(pthread_join(thread, NULL));
    towpath_team_free(alone);
    OK(towpath_leave(task));
}

int main(int argc, char **argv)
{
    struct rlimit limit = {256 << 20, 256 << 20};
    towpath_task *task = NULL;
    towpath_team *team;
    towpath_id peer;
    uint32_t rank;
    const char *what = argc > 1 ? argv[1] : "";

    CHECK(towpath_rank(&rank) == TOWPATH_OK);
    if (rank == 1 && strcmp(what, "memory") == 0)
        OK(setrlimit(RLIMIT_AS, &limit)); /* Less than its segment would take. */
    OK(towpath_enrol(&task, why, sizeof why));
    OK(towpath_team_of_group(task, "misuse", 2, &team));
    peer = towpath_team_member(team, 1 - towpath_team_rank(team));
    if (rank == 0) {
        answer(task, peer);
        OK(towpath_leave(task));
    } else if (strcmp(what, "forks") == 0) {
        forks(task, peer);
    } else if (strcmp(what, "closes") == 0) {
        closes(task, peer);
    } else if (strcmp(what, "threads") == 0) {
        threads(task, peer);
    } else if (strcmp(what, "frees") == 0) {
        frees(task);
    } else if (strcmp(what, "memory") == 0) {
        trips(task, peer, 100, 100);
        trips(task, peer, 20, LONG);
        CHECK(towpath_route(task, peer) == TOWPATH_BY_DAEMON);
        OK(towpath_leave(task));
    } else {
        CHECK(!"such a misuse");
    }
    towpath_team_free(team);
    return 0;
}
