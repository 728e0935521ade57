/* Hosts that come and go, and the end of them all: a task with two arguments, the `towpath` command
 * and a file that is written before it ends the virtual machine, and itself with it. */
#include "check.h"

static const int64_t MINUTE = INT64_C(60000000000);

/* The next event, which must be of this kind and watch. */
static towpath_event next(towpath_task *task, uint32_t kind, uint64_t watch)
{
    towpath_event event;
    int code;
    while ((code = towpath_next_event(task, &event)) == TOWPATH_NONE)
        OK(towpath_wait(task, MINUTE));
    OK(code);
    CHECK(event.kind == kind && event.watch == watch);
    return event;
}

int main(int argc, char **argv)
{
    towpath_task *task = NULL;
    towpath_host_info hosts[4];
    towpath_host added;
    towpath_event event;
    uint64_t fresh, gone, never;
    size_t count = 0;
    char join[4096];
    int code = 1;
    FILE *file;

    if (argc != 3 || towpath_enrol(&task, NULL, 0) != TOWPATH_OK)
        return 2;
    OK(towpath_watch_new_hosts(task, &fresh));
    OK(towpath_watch_new_hosts(task, &never));
    CHECK(fresh != never);
    OK(towpath_unwatch(task, never));
    snprintf(join, sizeof join, "'%s' token | '%s' join - > /dev/null", argv[1], argv[1]);
    CHECK(system(join) == 0);
    event = next(task, TOWPATH_HOST_ADDED, fresh);
    added = event.host;
    CHECK(event.len > 0 && strlen(event.bytes) == event.len);
    OK(towpath_hosts(task, hosts, 4, &count));
    CHECK(count == 2 && hosts[1].id == added && hosts[1].up);
    CHECK(strcmp(hosts[1].name, event.bytes) == 0);

    OK(towpath_watch_host(task, added, &gone));
    OK(towpath_watch_host(task, added, &never));
    OK(towpath_unwatch(task, never));
    OK(towpath_delete_hosts(task, &added, 1, &code));
    CHECK(code == TOWPATH_OK);
    event = next(task, TOWPATH_HOST_GONE, gone);
    CHECK(event.host == added && event.value == 0);
    OK(towpath_delete_hosts(task, &added, 1, &code));
    CHECK(code == TOWPATH_E_NO_HOST);
    CHECK(towpath_watch_host(task, 0, NULL) == TOWPATH_E_ARGUMENT);
    /* Those that were not wanted any more said nothing. */
    CHECK(towpath_next_event(task, &event) == TOWPATH_NONE);

    file = fopen(argv[2], "w");
    CHECK(file != NULL && fputs("all right\n", file) >= 0 && fclose(file) == 0);
    towpath_halt(task);
    return 0;
}
