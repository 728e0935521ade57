/* The peer of `bench`'s rows of tasks, for whatever MPI is installed: the same work, measured the
 * same way. Started as `peer OUT CPUS WHAT ARGUMENTS` by mpirun; rank 0 writes nanoseconds, one a
 * line, to OUT.
 *
 *   echo LEN SECONDS     a message there and back
 *   oneway LEN SECONDS   messages one way, answered now and then; times are by the message
 *   barrier COUNT        from when the last one came until the last one left
 *   bcast LEN COUNT      from the start until the last receiver has it
 *   exchange COUNT STEP...   steps of an exchange, ten exchanges in a turn: from when
 *                        the first one begins until the last one has all. b:LEN:ROOT broadcast, g:LEN:0 gather,
 *                        a:LEN:0 all gather, t:LEN:0 all to all, h:LEN:ITEMS hand out
 *   only COUNT STEP...   so many exchanges and nothing else
 *   start                the clock when rank 0 has heard of every other and answered
 *
 * CPUS are processors to be pinned to in turn, such as 0,1, or `none`. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFERS = 8, COMPARED = 8, BATCH = 32, TIMES_MAX = 1 << 20 };
enum { TURN_BYTES = 16 << 20, TURN_MESSAGES = 4096 };
enum { TURN = 10 };
enum { END = 0, GO_ON = 1, ANSWER = 2 };
static const int64_t SHORT_TRIP = 4000;

static int rank, ranks;
static FILE *out;
static unsigned char *buffers[BUFFERS], *back;

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static void *memory(size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p) fail("no memory");
    return p;
}

static void pin(const char *cpus) {
    int list[1024], count = 0;
    if (!strcmp(cpus, "none")) return;
    for (char *rest; count < 1024; cpus = rest + 1) {
        list[count++] = (int)strtol(cpus, &rest, 10);
        if (*rest != ',') break;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(list[rank % count], &set);
    if (sched_setaffinity(0, sizeof set, &set)) fail("cannot be pinned to its processor");
}

static void to(int peer, const void *bytes, int len) {
    MPI_Send(bytes, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
}

static void from(int peer, void *bytes, int len) {
    MPI_Recv(bytes, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void fill(unsigned char *bytes, int len) {
    static uint64_t state = 88172645463325252u;
    for (int i = 0; i < len; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        bytes[i] = (unsigned char)(state >> 32);
    }
    bytes[0] = GO_ON;
}

static void trip(const unsigned char *message, int len) {
    to(1, message, len);
    from(1, back, len);
}

/* Random messages, and that they come back as they were. */
static void compare(int len) {
    for (int n = 0; n < BUFFERS; n++) buffers[n] = memory((size_t)len);
    for (int n = 0; n < COMPARED; n++) {
        fill(buffers[n], len);
        memset(back, 0, (size_t)len);
        trip(buffers[n], len);
        if (memcmp(buffers[n], back, (size_t)len)) fail("a message came back changed");
    }
}

static void echo(int len, int64_t time) {
    back = memory((size_t)len);
    if (rank) {
        for (;;) {
            from(0, back, len);
            if (back[0] == END) return;
            to(0, back, len);
        }
    }
    compare(len);
    int64_t begin = now();
    int warm = 0;
    while (warm < 2 || now() - begin < time / 10) trip(buffers[warm++ % BUFFERS], len);
    int batch = (now() - begin) / warm < SHORT_TRIP ? BATCH : 1;
    int64_t last = now(), end = last + time;
    for (int count = 0, n = 0; last < end && count < TIMES_MAX; count++) {
        for (int k = 0; k < batch; k++) trip(buffers[n++ % BUFFERS], len);
        int64_t t = now();
        fprintf(out, "%lld\n", (long long)((t - last) / batch));
        /* What writing takes does not count. */
        last = now();
    }
    back[0] = END;
    to(1, back, len);
}

static void one_way(int len, int64_t time) {
    back = memory((size_t)len);
    if (rank) {
        for (int n = 0; n < COMPARED; n++) {
            from(0, back, len);
            to(0, back, len);
        }
        for (;;) {
            from(0, back, len);
            if (back[0] == END) return;
            if (back[0] == ANSWER) to(0, back, len);
        }
    }
    compare(len);
    int turn = TURN_BYTES / len;
    turn = turn < 2 ? 2 : turn > TURN_MESSAGES ? TURN_MESSAGES : turn;
    buffers[BUFFERS - 1][0] = ANSWER;
    int64_t begin = now(), last = begin;
    for (int count = 0; count < 2 || last - begin < time; count++) {
        for (int n = 1; n < turn; n++) to(1, buffers[n % (BUFFERS - 1)], len);
        trip(buffers[BUFFERS - 1], len);
        int64_t t = now();
        /* The first turn does not count. */
        if (count) fprintf(out, "%lld\n", (long long)((t - last) / turn));
        last = t;
    }
    back[0] = END;
    to(1, back, len);
}

/* Of each round, a tenth at the beginning aside: `begins` of its rank or of all, until the last of
 * all `ends`. */
static void write_rounds(int64_t *begins, int64_t *ends, int count, int all_begin) {
    int64_t *last = memory(sizeof *last * (size_t)count);
    MPI_Reduce(ends, last, count, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    if (all_begin) {
        int64_t *came = memory(sizeof *came * (size_t)count);
        MPI_Reduce(begins, came, count, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
        begins = came;
    }
    for (int n = count / 10; !rank && n < count; n++)
        fprintf(out, "%lld\n", (long long)(last[n] - begins[n]));
}

static void barrier(int count) {
    int64_t *came = memory(sizeof *came * (size_t)count);
    int64_t *left = memory(sizeof *left * (size_t)count);
    for (int n = 0; n < count; n++) {
        came[n] = now();
        MPI_Barrier(MPI_COMM_WORLD);
        left[n] = now();
    }
    write_rounds(came, left, count, 1);
}

static uint64_t checksum(const unsigned char *bytes, int len) {
    uint64_t sum = 0;
    for (int n = 0; n < len; n++) sum = ((sum << 5) | (sum >> 59)) ^ bytes[n];
    return sum;
}

static void bcast(int len, int count) {
    int64_t *begin = memory(sizeof *begin * (size_t)count);
    int64_t *end = memory(sizeof *end * (size_t)count);
    uint64_t *sums = memory(sizeof *sums * (size_t)ranks);
    unsigned char *bytes = memory((size_t)len);
    for (int n = 0; n < count; n++) {
        if (!rank && n < BUFFERS) fill(buffers[n] = memory((size_t)len), len);
        if (!rank) bytes = buffers[n % BUFFERS];
        begin[n] = now();
        MPI_Bcast(bytes, len, MPI_BYTE, 0, MPI_COMM_WORLD);
        end[n] = now();
        uint64_t sum = checksum(bytes, len);
        MPI_Gather(&sum, 1, MPI_UINT64_T, sums, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
        for (int k = 0; !rank && k < ranks; k++)
            if (sums[k] != sum) fail("a receiver has other bytes than were sent");
    }
    write_rounds(begin, end, count, 0);
}

struct step {
    char kind;
    int len, more;
    unsigned char *give, *got;
};

static unsigned char mark(int who, int at) { return (unsigned char)(who * 31 + at * 7 + 1); }

static void are_of(const struct step *step, int at) {
    int parts = step->kind == 'b' ? 1 : step->kind == 'h' ? 0 : ranks;
    if (step->kind == 'g' && rank) parts = 0;
    for (int k = 0; k < parts; k++)
        for (int n = 0; n < step->len; n++)
            if (step->got[(size_t)k * (size_t)step->len + (size_t)n] !=
                mark(step->kind == 'b' ? step->more : k, at))
                fail("something else came than was given");
}

/* An empty message says that there is no item left. */
static void hand_out(struct step *step) {
    MPI_Status status;
    int left = step->more, under_way = 0, len;
    if (rank) {
        for (;;) {
            MPI_Recv(step->got, step->len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &len);
            if (!len) return;
            to(0, step->give, step->len);
        }
    }
    for (int k = 1; k < ranks; k++) {
        to(k, step->give, left > 0 ? step->len : 0);
        if (left-- > 0) under_way++;
    }
    while (under_way > 0) {
        MPI_Recv(step->got, step->len, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        to(status.MPI_SOURCE, step->give, left > 0 ? step->len : 0);
        if (left-- <= 0) under_way--;
    }
}

static void take(struct step *step) {
    MPI_Comm all = MPI_COMM_WORLD;
    int len = step->len;
    if (step->kind == 'b')
        MPI_Bcast(rank == step->more ? step->give : step->got, len, MPI_BYTE, step->more, all);
    else if (step->kind == 'g')
        MPI_Gather(step->give, len, MPI_BYTE, step->got, len, MPI_BYTE, 0, all);
    else if (step->kind == 'a')
        MPI_Allgather(step->give, len, MPI_BYTE, step->got, len, MPI_BYTE, all);
    else if (step->kind == 't')
        MPI_Alltoall(step->give, len, MPI_BYTE, step->got, len, MPI_BYTE, all);
    else
        hand_out(step);
}

static struct step *read_steps(int steps, char **texts) {
    struct step *all = memory(sizeof *all * (size_t)steps);
    for (int s = 0; s < steps; s++) {
        struct step *step = all + s;
        if (sscanf(texts[s], "%c:%d:%d", &step->kind, &step->len, &step->more) != 3 ||
            !strchr("bgath", step->kind) || step->len < 1 || step->more < 0)
            fail("a step is none");
        size_t whole = (size_t)step->len * (size_t)ranks;
        memset(step->give = memory(whole), mark(rank, s), whole);
        step->got = memory(whole);
        /* The root of a broadcast has what it gives. */
        if (step->kind == 'b' && rank == step->more) step->got = step->give;
    }
    return all;
}

static void exchange(int count, int steps, char **texts) {
    int64_t *came = memory(sizeof *came * (size_t)count);
    int64_t *left = memory(sizeof *left * (size_t)count);
    struct step *all = read_steps(steps, texts);
    count /= TURN;
    for (int n = 0; n < count; n++) {
        MPI_Barrier(MPI_COMM_WORLD);
        came[n] = now();
        for (int t = 0; t < TURN; t++)
            for (int s = 0; s < steps; s++) take(all + s);
        left[n] = now();
        for (int s = 0; !n && s < steps; s++) are_of(all + s, s);
    }
    int64_t *first = memory(sizeof *first * (size_t)count);
    int64_t *last = memory(sizeof *last * (size_t)count);
    MPI_Reduce(came, first, count, MPI_INT64_T, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(left, last, count, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int n = 1; !rank && n < count; n++)
        fprintf(out, "%lld\n", (long long)((last[n] - first[n]) / TURN));
}

/* What is sent meanwhile is counted from outside. */
static void exchange_only(int count, int steps, char **texts) {
    struct step *all = read_steps(steps, texts);
    for (int n = 0; n < count; n++)
        for (int s = 0; s < steps; s++) take(all + s);
    if (!rank) fprintf(out, "%d\n", count);
}

static void start(void) {
    unsigned char message[16] = {0};
    for (int n = 1; !rank && n < ranks; n++) {
        MPI_Status status;
        MPI_Recv(message, sizeof message, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        to(status.MPI_SOURCE, message, sizeof message);
    }
    if (!rank) {
        fprintf(out, "%lld\n", (long long)now());
        return;
    }
    to(0, message, sizeof message);
    from(0, message, sizeof message);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 4) fail("usage: peer OUT CPUS WHAT ARGUMENTS");
    if (!rank && !(out = fopen(argv[1], "w"))) fail("cannot write its times");
    pin(argv[2]);
    const char *what = argv[3];
    int size = argc > 4 ? atoi(argv[4]) : 0;
    int64_t time = argc > 5 ? (int64_t)(atof(argv[5]) * 1e9) : 0;
    if (!strcmp(what, "echo") && ranks == 2 && size > 0)
        echo(size, time);
    else if (!strcmp(what, "oneway") && ranks == 2 && size > 0)
        one_way(size, time);
    else if (!strcmp(what, "barrier") && size > 0)
        barrier(size);
    else if (!strcmp(what, "bcast") && size > 0 && argc > 5 && atoi(argv[5]) > 0)
        bcast(size, atoi(argv[5]));
    else if (!strcmp(what, "exchange") && size > 0)
        exchange(size, argc - 5, argv + 5);
    else if (!strcmp(what, "only") && size > 0)
        exchange_only(size, argc - 5, argv + 5);
    else if (!strcmp(what, "start"))
        start();
    else
        fail("it was asked for something else");
    if (out && fclose(out)) fail("cannot write its times");
    MPI_Finalize();
    return 0;
}
