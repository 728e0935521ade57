/* What PVM does not live through, or takes minutes for.
 *
 *   hard many COUNT          so many tasks at once
 *   hard asleep COUNT BYTES  so many messages to a task that sleeps meanwhile
 *   hard both HOST BYTES     two tasks that both send before they receive
 *   hard dead HOST           waits for a host's end
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pvm3.h>

enum { HELLO = 1, GO, DATA, DONE, HOST_GONE, TASK_GONE };

static int start(char *program, char *what, char *host, int *tids, int count)
{
    char *args[] = {what, 0};
    return pvm_spawn(program, args, host ? PvmTaskHost : PvmTaskDefault, host, count, tids);
}

static void say(int to, int tag, int value)
{
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&value, 1, 1);
    pvm_send(to, tag);
}

static int hear(int from, int tag)
{
    int value = -1;
    pvm_recv(from, tag);
    pvm_upkint(&value, 1, 1);
    return value;
}

static int value_of(int message, int at)
{
    return at * 2654435761u + message;
}

static void send_data(int to, int message, int ints)
{
    int *data = malloc(ints * sizeof(int)), at;
    for (at = 0; at < ints; at++)
        data[at] = value_of(message, at);
    pvm_initsend(PvmDataRaw);
    pvm_pkint(data, ints, 1);
    pvm_send(to, DATA);
    free(data);
}

/* 1: the next message is what it should be. */
static int receive_data(int from, int message, int ints)
{
    int *data = malloc(ints * sizeof(int)), at, good;
    pvm_recv(from, DATA);
    good = pvm_upkint(data, ints, 1) == PvmOk;
    for (at = 0; good && at < ints; at++)
        good = data[at] == value_of(message, at);
    free(data);
    return good;
}

static void many(char *program, int count)
{
    int *tids = malloc(count * sizeof(int)), started = start(program, "one", 0, tids, count), at;
    for (at = 0; at < started; at++)
        hear(-1, HELLO);
    printf("%d tasks at once\n", started);
    pvm_initsend(PvmDataDefault);
    pvm_mcast(tids, started, GO);
    pvm_notify(PvmTaskExit, TASK_GONE, started, tids);
    for (at = 0; at < started; at++)
        hear(-1, TASK_GONE);
    printf("%d ends told\n", started);
}

static void asleep(char *program, int count, int ints)
{
    int tid, at;
    start(program, "sleeper", 0, &tid, 1);
    say(tid, GO, count);
    say(tid, GO, ints);
    for (at = 0; at < count; at++)
        send_data(tid, at, ints);
    printf("%d messages came as they were sent\n", hear(tid, DONE));
}

static void sleeper(void)
{
    int parent = pvm_parent(), count = hear(parent, GO), ints = hear(parent, GO), at, good = 0;
    sleep(2);
    for (at = 0; at < count; at++)
        good += receive_data(parent, at, ints);
    say(parent, DONE, good);
}

static void both(char *program, char *host, int ints)
{
    int tid, good;
    start(program, "other", host, &tid, 1);
    say(tid, GO, ints);
    send_data(tid, 1, ints);
    good = receive_data(tid, 2, ints);
    printf("both sent first: %d and %d\n", good, hear(tid, DONE));
}

static void other(void)
{
    int parent = pvm_parent(), ints = hear(parent, GO);
    send_data(parent, 2, ints);
    say(parent, DONE, receive_data(parent, 1, ints));
}

static void dead(char *program, char *host)
{
    int tid, dtid, gone;
    start(program, "one", host, &tid, 1);
    hear(tid, HELLO);
    dtid = pvm_tidtohost(tid);
    pvm_notify(PvmHostDelete, HOST_GONE, 1, &dtid);
    pvm_notify(PvmTaskExit, TASK_GONE, 1, &tid);
    printf("ready\n");
    gone = hear(-1, HOST_GONE);
    printf("host %s\n", gone == dtid ? "gone" : "wrong");
    gone = hear(-1, TASK_GONE);
    printf("task %s\n", gone == tid ? "gone" : "wrong");
    printf("mstat %d pstat %d\n", pvm_mstat(host), pvm_pstat(tid));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int number = argc > 3 ? atoi(argv[3]) / 4 : 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    if (pvm_mytid() < 0)
        return 1;
    if (strcmp(what, "one") == 0) {
        say(pvm_parent(), HELLO, 0);
        pvm_recv(pvm_parent(), GO);
    } else if (strcmp(what, "sleeper") == 0)
        sleeper();
    else if (strcmp(what, "other") == 0)
        other();
    else if (strcmp(what, "many") == 0)
        many(argv[0], atoi(argv[2]));
    else if (strcmp(what, "asleep") == 0)
        asleep(argv[0], atoi(argv[2]), number);
    else if (strcmp(what, "both") == 0)
        both(argv[0], argv[2], number);
    else if (strcmp(what, "dead") == 0)
        dead(argv[0], argv[2]);
    pvm_exit();
    return 0;
}
