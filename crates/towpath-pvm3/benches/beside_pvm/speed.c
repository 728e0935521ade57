/* How fast messages and spawning are through PVM's interface: the same program for PVM and for
 * Towpath, compiled once.
 *
 *   speed echo ROUTE HOST MS   round trips with a task on HOST; prints
 *                              "echo PLACEMENT MODE FRAGMENT BYTES MICROSECONDS" for each kind,
 *                              the median of what fits into MS milliseconds
 *   speed spawn COUNT HOST     prints "spawn COUNT MICROSECONDS": until the last task's message
 *   speed group ROUTE HOST...  with a task on each HOST; prints "WHAT HOSTS BYTES MICROSECONDS" for
 *                              barriers, for the news of a task's end after pvm_kill, and for the
 *                              same message to all, until the last one's answer: by pvm_mcast, by a
 *                              loop of pvm_send, and by that in place
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <pvm3.h>

#define LONGEST (4 << 20)
#define MOST 20000
#define FEWEST 5
#define WARM 2

enum { SETTING = 1, PING, PONG, HELLO, END };
enum { HOSTS_MAX = 16, BARRIERS = 200, KILLS = 20, CASTS = 100 };
enum { RAW, DEFAULT, IN_PLACE, ARRAY, MODES };

static const char *const names[MODES] = {"raw", "default", "in_place", "psend"};
static const int fragments[] = {4080, 65536, 1000000};
static const int sizes[] = {16, 256, 4096, 65536, 1 << 20, LONGEST};
static int data[LONGEST / 4];
static double times[MOST];

struct setting {
    int mode, fragment, size, processor;
};

static void failed(const char *what)
{
    fprintf(stderr, "speed: %s\n", what);
    pvm_exit();
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(int count)
{
    qsort(times, count, sizeof times[0], ascending);
    return times[count / 2];
}

static void run_on(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void send_data(const struct setting *s, int to, int tag)
{
    static const int encodings[] = {PvmDataRaw, PvmDataDefault, PvmDataInPlace};
    if (s->mode == ARRAY) {
        if (pvm_psend(to, tag, (char *)data, s->size, PVM_BYTE) < 0)
            failed("pvm_psend");
        return;
    }
    pvm_initsend(encodings[s->mode]);
    pvm_pkint(data, s->size / 4, 1);
    if (pvm_send(to, tag) < 0)
        failed("pvm_send");
}

static void receive_data(const struct setting *s, int from, int tag)
{
    if (s->mode == ARRAY) {
        if (pvm_precv(from, tag, (char *)data, s->size, PVM_BYTE, 0, 0, 0) < 0)
            failed("pvm_precv");
    } else if (pvm_recv(from, tag) < 0 || pvm_upkint(data, s->size / 4, 1) < 0)
        failed("pvm_recv");
}

/* The other task: does what it is told. */
static void echo(int parent)
{
    struct setting s;
    int id, tag;
    for (;;) {
        pvm_recv(parent, SETTING);
        pvm_upkint((int *)&s, 4, 1);
        if (s.size == 0)
            return;
        run_on(s.processor);
        pvm_setopt(PvmFragSize, s.fragment);
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, SETTING);
        for (;;) {
            if (s.mode == ARRAY) {
                /* What ends it is shorter. */
                int len;
                pvm_precv(parent, -1, (char *)data, s.size, PVM_BYTE, 0, &tag, &len);
            } else {
                id = pvm_recv(parent, -1);
                pvm_bufinfo(id, 0, &tag, 0);
                if (tag == PING)
                    pvm_upkint(data, s.size / 4, 1);
            }
            if (tag == END)
                break;
            send_data(&s, parent, PONG);
        }
    }
}

static void tell(const struct setting *s, int to)
{
    pvm_initsend(PvmDataDefault);
    pvm_pkint((int *)s, 4, 1);
    pvm_send(to, SETTING);
    if (s->size)
        pvm_recv(to, SETTING);
}

static void one_trip(const struct setting *s, int to)
{
    send_data(s, to, PING);
    receive_data(s, to, PONG);
}

static double trips(const struct setting *s, int to, double budget)
{
    int count = -WARM, at;
    double end, start;
    for (at = 0; at < s->size / 4; at++)
        data[at] = at * 2654435761u ^ s->size;
    /* The first ones touch memory for the first time: they do not count. */
    end = now() + budget / 4;
    while (count < 0 || now() < end) {
        one_trip(s, to);
        count++;
    }
    end = now() + budget;
    for (count = 0; count < FEWEST || (count < MOST && now() < end); count++) {
        start = now();
        one_trip(s, to);
        times[count] = now() - start;
    }
    for (at = 0; at < s->size / 4; at++)
        if (data[at] != (int)(at * 2654435761u ^ s->size))
            failed("other data came back");
    pvm_psend(to, END, (char *)data, 1, PVM_BYTE);
    return median(count);
}

static void all_trips(int to, const int *processors, double budget)
{
    static const char *const placements[] = {"apart", "together"};
    struct setting s;
    int place, mode, fragment, size;
    for (place = 0; place < 2; place++) {
        run_on(processors[0]);
        s.processor = processors[place == 0];
        for (mode = 0; mode < MODES; mode++)
            for (fragment = 0; fragment < 3; fragment++)
                for (size = 0; size < 6; size++) {
                    s.mode = mode;
                    s.fragment = fragments[fragment];
                    s.size = sizes[size];
                    /* Fragments make no difference to what fits into one, and to arrays. */
                    if (fragment && (mode == ARRAY || s.size < 4096))
                        continue;
                    pvm_setopt(PvmFragSize, s.fragment);
                    tell(&s, to);
                    printf("echo %s %s %d %d %.3f\n", placements[place], names[mode], s.fragment,
                           s.size, trips(&s, to, budget));
                    fflush(stdout);
                }
    }
    s.size = 0;
    tell(&s, to);
}

/* Two processors of those that this task may run on: the first and the last. */
static void find_processors(int *processors)
{
    cpu_set_t set;
    int at;
    sched_getaffinity(0, sizeof set, &set);
    processors[0] = processors[1] = -1;
    for (at = 0; at < CPU_SETSIZE; at++)
        if (CPU_ISSET(at, &set)) {
            if (processors[0] < 0)
                processors[0] = at;
            processors[1] = at;
        }
}

static void spawn(char *program, int count, char *host)
{
    char *args[] = {"hello", 0};
    int *tids = malloc(count * sizeof(int)), at;
    double start = now();
    if (pvm_spawn(program, args, PvmTaskHost, host, count, tids) != count)
        failed("pvm_spawn");
    for (at = 0; at < count; at++)
        pvm_recv(-1, HELLO);
    printf("spawn %d %.3f\n", count, now() - start);
    pvm_notify(PvmTaskExit, END, count, tids);
    for (at = 0; at < count; at++)
        pvm_recv(-1, END);
}

/* Tasks on the hosts, told what to do, which say that they are there. */
static void all_spawned(char *program, char **args, char **hosts, int count, int *tids)
{
    int at;
    for (at = 0; at < count; at++)
        if (pvm_spawn(program, args, PvmTaskHost, hosts[at], 1, &tids[at]) != 1)
            failed("pvm_spawn");
    for (at = 0; at < count; at++)
        pvm_recv(-1, HELLO);
}

static void hello(void)
{
    pvm_initsend(PvmDataDefault);
    pvm_send(pvm_parent(), HELLO);
}

static void barriers(int members, int all)
{
    int at;
    pvm_joingroup("speed");
    if (!all)
        hello();
    for (at = 0; !all && at < BARRIERS; at++)
        pvm_barrier("speed", members);
}

static void group_barriers(char *program, char **hosts, int count)
{
    char members[16], *args[] = {"barriers", members, 0};
    int tids[HOSTS_MAX], at;
    double start;
    snprintf(members, sizeof members, "%d", count + 1);
    barriers(count + 1, 1);
    all_spawned(program, args, hosts, count, tids);
    for (at = 0; at < BARRIERS; at++) {
        start = now();
        if (pvm_barrier("speed", count + 1) < 0)
            failed("pvm_barrier");
        times[at] = now() - start;
    }
    pvm_lvgroup("speed");
    printf("barrier %d 0 %.3f\n", count + 1, median(BARRIERS));
}

static void kills(char *program, char *host)
{
    char *args[] = {"idle", 0};
    int tid, at;
    double start;
    for (at = 0; at < KILLS; at++) {
        all_spawned(program, args, &host, 1, &tid);
        pvm_notify(PvmTaskExit, END, 1, &tid);
        start = now();
        pvm_kill(tid);
        pvm_recv(-1, END);
        times[at] = now() - start;
    }
    printf("kill 2 0 %.3f\n", median(KILLS));
}

/* Answers each message when it has unpacked it. */
static void take(void)
{
    int id, len, tag;
    hello();
    for (;;) {
        id = pvm_recv(pvm_parent(), -1);
        pvm_bufinfo(id, &len, &tag, 0);
        if (tag == END)
            return;
        pvm_upkint(data, len / 4, 1);
        pvm_initsend(PvmDataRaw);
        pvm_send(pvm_parent(), PONG);
    }
}

enum { CAST, SENDS, IN_PLACE_SENDS, WAYS };

static void cast(int way, int size, int *tids, int count)
{
    int at;
    pvm_initsend(way == IN_PLACE_SENDS ? PvmDataInPlace : PvmDataRaw);
    pvm_pkint(data, size / 4, 1);
    if (way == CAST)
        pvm_mcast(tids, count, PING);
    else
        for (at = 0; at < count; at++)
            pvm_send(tids[at], PING);
    for (at = 0; at < count; at++)
        pvm_recv(-1, PONG);
}

static void casts(char *program, char *route, char **hosts, int count)
{
    static const char *const ways[WAYS] = {"mcast", "sends", "in_place"};
    char *args[] = {"take", route, 0};
    int tids[HOSTS_MAX], way, size, at, most;
    double start;
    all_spawned(program, args, hosts, count, tids);
    for (size = 64; size <= LONGEST; size *= size < 65536 ? 1024 : size < 1 << 20 ? 16 : 4)
        for (way = 0; way < WAYS; way++) {
            most = size > 65536 ? CASTS / 5 : CASTS;
            for (at = -WARM; at < most; at++) {
                start = now();
                cast(way, size, tids, count);
                if (at >= 0)
                    times[at] = now() - start;
            }
            printf("%s %d %d %.3f\n", ways[way], count + 1, size, median(most));
        }
    pvm_initsend(PvmDataDefault);
    pvm_mcast(tids, count, END);
}

static void group(char *program, char *route, char **hosts, int count)
{
    group_barriers(program, hosts, 1);
    group_barriers(program, hosts, count);
    kills(program, hosts[0]);
    casts(program, route, hosts, 1);
    casts(program, route, hosts, count);
}

static void set_route(const char *name)
{
    pvm_setopt(PvmRoute, strcmp(name, "direct") == 0 ? PvmRouteDirect : PvmDontRoute);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int tid, processors[2];
    find_processors(processors);
    if (pvm_mytid() < 0)
        return 1;
    if (strcmp(what, "hello") == 0)
        hello();
    else if (strcmp(what, "idle") == 0) {
        hello();
        pvm_recv(-1, END);
    } else if (strcmp(what, "barriers") == 0 && argc == 3)
        barriers(atoi(argv[2]), 0);
    else if (strcmp(what, "take") == 0 && argc == 3) {
        set_route(argv[2]);
        take();
    } else if (strcmp(what, "group") == 0 && argc > 3 && argc <= HOSTS_MAX) {
        set_route(argv[2]);
        group(argv[0], argv[2], argv + 3, argc - 3);
    } else if (strcmp(what, "spawn") == 0 && argc == 4)
        spawn(argv[0], atoi(argv[2]), argv[3]);
    else if (argc > 2) {
        set_route(argv[2]);
        if (strcmp(what, "echo") != 0)
            echo(pvm_parent());
        else if (argc == 5) {
            char *args[] = {"back", argv[2], 0};
            if (pvm_spawn(argv[0], args, PvmTaskHost, argv[3], 1, &tid) != 1)
                failed("pvm_spawn");
            all_trips(tid, processors, atof(argv[4]) * 1000);
        }
    }
    pvm_exit();
    return 0;
}
