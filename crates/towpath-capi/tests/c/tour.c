/* A tour of towpath.h: run as a task, it spawns itself and checks what each function does.
 * Exit status 0: all of it was right; else the first line that was not is named. */
#include <unistd.h>

#include "check.h"

static const int64_t SECOND = INT64_C(1000000000);

/* Layouts that programs are compiled with must never change. */
typedef char received_is_32[sizeof(towpath_received) == 32 ? 1 : -1];
typedef char wanted_is_24[sizeof(towpath_wanted) == 24 ? 1 : -1];
typedef char event_is_56[sizeof(towpath_event) == 56 ? 1 : -1];
typedef char spawn_is_64[sizeof(towpath_spawn) == 64 ? 1 : -1];
typedef char host_is_232[sizeof(towpath_host_info) == 232 ? 1 : -1];
typedef char task_is_240[sizeof(towpath_task_info) == 240 ? 1 : -1];
typedef char entry_is_40[sizeof(towpath_mail_entry) == 40 ? 1 : -1];
typedef char letter_is_24[sizeof(towpath_letter) == 24 ? 1 : -1];
typedef char listed_is_280[sizeof(towpath_mail_listed) == 280 ? 1 : -1];
typedef char group_is_272[sizeof(towpath_group_info) == 272 ? 1 : -1];
typedef char state_is_24[sizeof(towpath_group_state) == 24 ? 1 : -1];
typedef char pattern_is_32[sizeof(towpath_pattern) == 32 ? 1 : -1];
typedef char operation_is_40[sizeof(towpath_operation) == 40 ? 1 : -1];

static towpath_wanted from(towpath_id source, int64_t tag)
{
    towpath_wanted wanted = {0};
    wanted.source = source;
    wanted.tag = tag;
    return wanted;
}

/* Values, posted receives and started sends, of a task to itself. */
static void values(towpath_task *task)
{
    towpath_id me = towpath_self(task);
    towpath_wanted seven = from(0, 7);
    double out[3] = {1.5, -2.5, 1e300}, in[4] = {0};
    float wrong[4] = {0};
    uint32_t posted_room[2] = {0};
    char bytes[8] = "";
    towpath_received about;
    towpath_pattern even = {0, 2, ~UINT64_C(4), 3, UINT32_MAX}, any = {0};
    towpath_envelope envelope = {6, 3, 0};
    towpath_posted *posted = NULL, *other = NULL, *pair[2];
    towpath_sending *sending = NULL;
    size_t which = 9;
    uint32_t one = 1;

    OK(towpath_send_values(task, me, 7, TOWPATH_F64, out, 3));
    CHECK(towpath_recv_values(task, &seven, TOWPATH_F32, wrong, 4, 0, NULL) == TOWPATH_E_TYPE);
    CHECK(strstr(towpath_error(task), "type f64, not f32") != NULL);
    CHECK(towpath_recv_values(task, &seven, TOWPATH_F64, in, 2, 0, NULL) == TOWPATH_E_TOO_LONG);
    OK(towpath_recv_values(task, &seven, TOWPATH_F64, in, 4, TOWPATH_FOREVER, &about));
    CHECK(about.len == sizeof out && memcmp(in, out, sizeof out) == 0);
    CHECK(towpath_recv_values(task, &seven, TOWPATH_F64, in, 4, 0, NULL) == TOWPATH_NONE);
    CHECK(towpath_send_values(task, me, 7, 13, out, 3) == TOWPATH_E_ARGUMENT);

    /* A tag of 64 bits; and a receive that ignores its upper half. */
    towpath_pattern lower = {0, 5, UINT32_MAX, 0, UINT32_MAX};
    towpath_wanted wide = from(0, INT64_MIN + 5);
    OK(towpath_send(task, me, INT64_MIN + 5, "wide", 5));
    OK(towpath_send(task, me, 5, "five", 5));
    OK(towpath_recv_into(task, &wide, bytes, sizeof bytes, 0, &about));
    CHECK(about.tag == INT64_MIN + 5 && strcmp(bytes, "wide") == 0);
    OK(towpath_send(task, me, INT64_MAX - INT64_C(0xfffffffa), "last", 5));
    for (which = 0; which < 2; which++) {
        OK(towpath_post(task, &lower, 0, bytes, sizeof bytes, &posted));
        OK(towpath_finish_posted(task, &posted, 0, &about));
        CHECK((uint32_t)about.tag == 5 && strcmp(bytes, which == 0 ? "five" : "last") == 0);
    }

    /* Tags 2 and 6 of context 3; and whatever else comes. */
    OK(towpath_post(task, &even, 0, bytes, sizeof bytes, &posted));
    OK(towpath_post(task, &any, TOWPATH_U32, posted_room, sizeof posted_room, &other));
    CHECK(towpath_finish_posted(task, &posted, 0, NULL) == TOWPATH_NONE && posted != NULL);
    OK(towpath_start_send(task, me, &envelope, "six", 4, &sending));
    OK(towpath_finish_send(task, &sending, TOWPATH_FOREVER));
    CHECK(sending == NULL && towpath_finish_send(task, &sending, 0) == TOWPATH_E_ARGUMENT);
    pair[0] = other;
    pair[1] = posted;
    OK(towpath_wait_posted(task, (const towpath_posted *const *)pair, 2, SECOND, &which));
    CHECK(which == 1);
    OK(towpath_finish_posted(task, &posted, 0, &about));
    CHECK(posted == NULL && about.tag == 6 && about.context == 3 && strcmp(bytes, "six") == 0);
    /* Of another type: an error, and left to others. */
    OK(towpath_try_send(task, me, NULL, "three", 5));
    CHECK(towpath_finish_posted(task, &other, SECOND, NULL) == TOWPATH_E_TYPE && other == NULL);
    OK(towpath_recv_into(task, NULL, bytes, sizeof bytes, 0, &about));
    CHECK(about.len == 5);
    OK(towpath_post(task, &any, TOWPATH_U32, posted_room, sizeof posted_room, &other));
    OK(towpath_cancel_posted(task, other, NULL));
    OK(towpath_post(task, &any, TOWPATH_U32, posted_room, sizeof posted_room, &other));
    OK(towpath_send_values(task, me, 1, TOWPATH_U32, &one, 1));
    CHECK(towpath_cancel_posted(task, other, &about) == TOWPATH_NONE);
    CHECK(about.len == 4 && posted_room[0] != 0);
    CHECK(towpath_cancel_posted(task, NULL, NULL) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_post(task, NULL, 0, bytes, 8, &posted) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_post(task, &any, 0, NULL, 8, &posted) == TOWPATH_E_ARGUMENT && posted == NULL);
}

/* A part of a team, and parts of different lengths to each of its members. */
static void split_up(towpath_task *task, towpath_team *team)
{
    uint32_t rank = towpath_team_rank(team), size = towpath_team_size(team), i;
    towpath_team *part = NULL;
    size_t lens[16], rooms[16], at = 0;
    char text[256], got[256];

    for (i = 0; i < size; i++) {
        lens[i] = i + 1; /* rank k gets k + 1 bytes of each */
        rooms[i] = rank + 1;
        memset(text + at, 'a' + (int)(rank + i), i + 1);
        at += i + 1;
    }
    OK(towpath_all_to_all_counts(task, team, text, lens, got, rooms));
    for (i = 0; i < size; i++)
        CHECK(got[i * (rank + 1)] == (char)('a' + rank + i));
    /* The last stays out; the others' order is turned round. */
    if (rank == size - 1) {
        CHECK(towpath_team_split(task, team, TOWPATH_NO_COLOUR, 0, &part) == TOWPATH_NONE);
        CHECK(part == NULL);
    } else {
        OK(towpath_team_split(task, team, 5, size - rank, &part));
        CHECK(towpath_team_size(part) == size - 1);
        CHECK(towpath_team_rank(part) == size - 2 - rank);
        OK(towpath_barrier(task, part));
        towpath_team_free(part);
    }
}

static void add_first(void *data, void *left, const void *right, size_t len)
{
    size_t i;
    ++*(int *)data;
    for (i = 0; i < len; i += 2) /* pairs of bytes: the first are added, the second are the right */
        ((unsigned char *)left)[i] += ((const unsigned char *)right)[i],
            ((unsigned char *)left)[i + 1] = ((const unsigned char *)right)[i + 1];
}

/* Parts of whatever length, by the function for all operations. */
static void any_length(towpath_task *task, towpath_team *team)
{
    uint32_t rank = towpath_team_rank(team), size = towpath_team_size(team), i;
    char text[] = "abcdefghijklmnop";
    towpath_part mine[16], part;
    towpath_operation op = {0};
    towpath_output *output = NULL;

    for (i = 0; i < size; i++) {
        mine[i].bytes = text + rank;
        mine[i].len = i + 1;
    }
    /* Member n gives n + 1 bytes, its own letter first. */
    op.what = TOWPATH_OP_ALL_GATHER;
    op.any_lengths = 1;
    op.parts = &mine[rank];
    op.count = 1;
    OK(towpath_perform(task, team, &op, &output));
    CHECK(towpath_output_count(output) == size);
    for (i = 0; i < size; i++) {
        OK(towpath_output_part(output, i, &part));
        CHECK(part.len == i + 1 && *(const char *)part.bytes == text[i]);
    }
    CHECK(towpath_output_part(output, size, &part) == TOWPATH_E_ARGUMENT);
    towpath_output_free(output);
    op.what = TOWPATH_OP_GATHER;
    op.root = 1;
    OK(towpath_perform(task, team, &op, &output));
    CHECK(towpath_output_count(output) == (rank == 1 ? size : 0));
    towpath_output_free(output);
    /* Only its root knows how long a broadcast is. */
    op.what = TOWPATH_OP_BROADCAST;
    op.count = rank == 1;
    OK(towpath_perform(task, team, &op, &output));
    OK(towpath_output_part(output, 0, &part));
    CHECK(towpath_output_count(output) == 1 && part.len == 2 && memcmp(part.bytes, "bc", 2) == 0);
    towpath_output_free(output);
    op.what = TOWPATH_OP_SCATTER;
    op.parts = mine;
    op.count = rank == 1 ? size : 0;
    OK(towpath_perform(task, team, &op, &output));
    OK(towpath_output_part(output, 0, &part));
    CHECK(part.len == rank + 1 && *(const char *)part.bytes == 'b');
    towpath_output_free(output);
    op.what = TOWPATH_OP_ALL_TO_ALL;
    op.count = size;
    OK(towpath_perform(task, team, &op, &output));
    for (i = 0; i < size; i++) {
        OK(towpath_output_part(output, i, &part));
        CHECK(part.len == rank + 1 && *(const char *)part.bytes == text[i]);
    }
    towpath_output_free(output);
    CHECK(towpath_perform(task, team, NULL, NULL) == TOWPATH_E_ARGUMENT);
    op.what = 11;
    CHECK(towpath_perform(task, team, &op, &output) == TOWPATH_E_ARGUMENT && output == NULL);
    op.what = TOWPATH_OP_SCAN;
    op.count = 2;
    CHECK(towpath_perform(task, team, &op, NULL) == TOWPATH_E_ARGUMENT);
    towpath_output_free(NULL);
}

/* Operations that go on while the task does something else. */
static void started(towpath_task *task, towpath_team *team)
{
    uint32_t rank = towpath_team_rank(team);
    uint64_t mine = rank + 1;
    towpath_part part = {&mine, sizeof mine};
    towpath_operator add = {0};
    towpath_operation sum = {0}, barrier = {0};
    towpath_pending *sums = NULL, *here = NULL, *unwanted = NULL;
    towpath_output *output = NULL;
    towpath_message *message = NULL;

    add.function = TOWPATH_SUM;
    add.element = TOWPATH_U64;
    sum.what = TOWPATH_OP_EXCLUSIVE_SCAN;
    sum.parts = &part;
    sum.count = 1;
    sum.by = &add;
    barrier.what = TOWPATH_OP_BARRIER;
    OK(towpath_start(task, team, &sum, &unwanted));
    OK(towpath_start(task, team, &sum, &sums));
    mine = 1000; /* what was given is copied */
    OK(towpath_start(task, team, &barrier, &here));
    towpath_pending_free(unwanted);
    OK(towpath_send(task, towpath_self(task), 77, "", 0));
    towpath_wanted wanted = from(towpath_self(task), 77);
    OK(towpath_recv(task, &wanted, 0, &message));
    towpath_message_free(message);
    while (towpath_test(task, team, here, 0) == TOWPATH_NONE)
        OK(towpath_wait(task, 20 * SECOND));
    OK(towpath_finish(task, team, here, &output));
    CHECK(towpath_output_count(output) == 0);
    towpath_output_free(output);
    CHECK(towpath_test(task, team, NULL, 0) == TOWPATH_E_ARGUMENT);
    OK(towpath_test(task, team, sums, TOWPATH_FOREVER));
    OK(towpath_finish(task, team, sums, &output));
    CHECK(towpath_output_count(output) == (rank > 0));
    if (rank > 0) {
        OK(towpath_output_part(output, 0, &part));
        memcpy(&mine, part.bytes, sizeof mine);
        CHECK(part.len == sizeof mine && mine == rank * (rank + 1) / 2);
    }
    towpath_output_free(output);
    CHECK(towpath_finish(task, team, NULL, NULL) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_start(task, team, &barrier, NULL) == TOWPATH_E_ARGUMENT);
    OK(towpath_barrier(task, team));
}

/* What all members of a team do in the same order. */
static void team_work(towpath_task *task, towpath_team *team)
{
    uint32_t rank = towpath_team_rank(team), size = towpath_team_size(team), i;
    double mine[2] = {1.5 + rank, (double)rank}, sum[2] = {0, 0};
    uint32_t word = rank == 1 ? 77 : 0, part = 100 + rank, all[16] = {0}, parts[16];
    towpath_operator add = {0}, user = {0};
    unsigned char pair[2], pairs[2];
    int calls = 0, code;

    CHECK(size <= 16 && towpath_team_member(team, rank) == towpath_self(task));
    OK(towpath_barrier(task, team));
    OK(towpath_broadcast(task, team, 1, &word, sizeof word));
    CHECK(word == 77);
    add.function = TOWPATH_SUM;
    add.element = TOWPATH_F64;
    OK(towpath_all_reduce(task, team, mine, sum, sizeof mine, &add));
    CHECK(sum[1] == size * (size - 1) / 2.0 && sum[0] == sum[1] + 1.5 * size);
    sum[0] = sum[1] = -1;
    OK(towpath_reduce(task, team, 0, mine, sum, sizeof mine, &add));
    CHECK(sum[1] == (rank == 0 ? size * (size - 1) / 2.0 : -1));
    OK(towpath_gather(task, team, 2, &part, sizeof part, rank == 2 ? all : NULL));
    for (i = 0; i < size; i++)
        CHECK(all[i] == (rank == 2 ? 100 + i : 0));
    OK(towpath_all_gather(task, team, &part, sizeof part, all));
    for (i = 0; i < size; i++)
        CHECK(all[i] == 100 + i);
    OK(towpath_scatter(task, team, 0, rank == 0 ? all : NULL, &word, sizeof word));
    CHECK(word == 100 + rank);
    for (i = 0; i < size; i++)
        parts[i] = 10 * rank + i;
    OK(towpath_all_to_all(task, team, parts, all, sizeof part));
    for (i = 0; i < size; i++)
        CHECK(all[i] == 10 * i + rank);
    user.combine = add_first;
    user.data = &calls;
    user.element_bytes = 2;
    pair[0] = (unsigned char)(rank + 1);
    pair[1] = (unsigned char)rank;
    OK(towpath_scan(task, team, pair, pairs, 2, &user));
    CHECK(pairs[0] == (rank + 1) * (rank + 2) / 2 && pairs[1] == rank);
    code = towpath_exclusive_scan(task, team, pair, pairs, 2, &user);
    CHECK(code == (rank == 0 ? TOWPATH_NONE : TOWPATH_OK));
    if (rank > 0)
        CHECK(pairs[0] == rank * (rank + 1) / 2 && pairs[1] == rank - 1);
    CHECK(towpath_barrier(task, NULL) == TOWPATH_E_ARGUMENT);
    any_length(task, team);
    started(task, team);
    add.function = 99;
    CHECK(towpath_all_reduce(task, team, mine, sum, sizeof mine, &add) == TOWPATH_E_ARGUMENT);
    split_up(task, team);
}

/* Sends back what comes on the next channel. */
static void echo_on_channel(towpath_task *task)
{
    static char room[65536];
    towpath_channel channel;
    towpath_channel_spec spec;
    towpath_id from;
    size_t len;
    int code;
    OK(towpath_accept_channel(task, 20 * SECOND, &channel, &from, &spec));
    CHECK(from == towpath_parent(task) && spec.priority == 6
          && spec.cls == (TOWPATH_TIMELY | TOWPATH_CODED(3, 1) | TOWPATH_CODED_ADAPTIVE));
    CHECK(spec.window == 20000 && spec.deadline_ns == 10 * SECOND);
    while ((code = towpath_recv_on(task, channel, room, sizeof room, TOWPATH_FOREVER, &len))
           == TOWPATH_OK)
        OK(towpath_send_on(task, channel, room, len, TOWPATH_FOREVER));
    CHECK(code == TOWPATH_E_CLOSED);
    CHECK(towpath_send_on(task, channel, room, 1, TOWPATH_FOREVER) == TOWPATH_E_CLOSED);
    OK(towpath_close_channel(task, channel));
}

/* Channels to a child: what is refused, what comes back, what is said of them. */
static void channels(towpath_task *task, towpath_id peer)
{
    static char room[20000];
    towpath_channel channel = 0;
    towpath_channel_spec spec, usual;
    towpath_channel_status status;
    size_t len = 0;
    towpath_channel_usual(&usual);
    CHECK(usual.cls == TOWPATH_ORDERED && usual.priority == 4 && usual.window == 65536);
    CHECK(usual.deadline_ns == TOWPATH_FOREVER);
    spec = usual;
    spec.deadline_ns = SECOND;
    CHECK(towpath_open_channel(task, peer, &spec, 20 * SECOND, &channel) == TOWPATH_E_ARGUMENT);
    CHECK(strstr(towpath_error(task), "only timely ones do") != NULL);
    spec.cls = 4;
    CHECK(towpath_open_channel(task, peer, &spec, 20 * SECOND, &channel) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_open_channel(task, towpath_self(task), NULL, 20 * SECOND, &channel) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_open_channel(task, peer, NULL, 20 * SECOND, NULL) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_accept_channel(task, 0, &channel, NULL, NULL) == TOWPATH_NONE);
    CHECK(towpath_recv_on(task, 77, room, sizeof room, 0, &len) == TOWPATH_E_NOT_FOUND);

    OK(towpath_send(task, peer, 97, "", 0));
    spec.cls = TOWPATH_TIMELY | TOWPATH_CODED(3, 9);
    CHECK(towpath_open_channel(task, peer, &spec, 20 * SECOND, &channel) == TOWPATH_E_ARGUMENT);
    CHECK(strstr(towpath_error(task), "9 parities, from 1 to 4") != NULL);
    spec.cls = TOWPATH_TIMELY | TOWPATH_CODED(3, 1) | TOWPATH_CODED_ADAPTIVE;
    spec.priority = 6;
    spec.window = 20000;
    spec.deadline_ns = 10 * SECOND;
    OK(towpath_open_channel(task, peer, &spec, 20 * SECOND, &channel));
    CHECK(towpath_send_on(task, channel, room, 20000, TOWPATH_FOREVER) == TOWPATH_E_TOO_LONG);
    CHECK(towpath_send_on(task, channel, "", 0, 0) == TOWPATH_E_TOO_LATE);
    OK(towpath_send_on(task, channel, "forth", 5, 5 * SECOND));
    CHECK(towpath_recv_on(task, channel, room, 4, 20 * SECOND, &len) == TOWPATH_E_TOO_LONG);
    CHECK(len == 5);
    OK(towpath_recv_on(task, channel, room, sizeof room, 0, &len));
    CHECK(len == 5 && memcmp(room, "forth", 5) == 0);
    CHECK(towpath_recv_on(task, channel, room, sizeof room, 0, &len) == TOWPATH_NONE);
    while (towpath_try_send_on(task, channel, room, 5000) == TOWPATH_OK)
        ++len;
    CHECK(len >= 5 + 3);
    for (; len > 5; --len)
        OK(towpath_recv_on(task, channel, room, sizeof room, 20 * SECOND, NULL));
    OK(towpath_channel_look(task, channel, &status));
    CHECK(status.peer == peer && status.received >= 4 && status.abandoned == 0);
    OK(towpath_close_channel(task, channel));
    CHECK(towpath_close_channel(task, channel) == TOWPATH_E_NOT_FOUND);
}

/* Sends everything back under the next tag; ends with the number in a message of tag 99. A message
 * of tag 98 lists the members of a team; after one of tag 97 comes a channel, on which everything is
 * sent back until it is closed. */
static int child(towpath_task *task)
{
    towpath_id parent = towpath_parent(task), all[4] = {0};
    size_t count = 0;
    CHECK(parent != 0 && towpath_context(task) == 6);
    OK(towpath_siblings(task, all, 4, &count));
    CHECK(count == 3 && all[3] == 0);
    CHECK(all[0] == towpath_self(task) || all[1] == towpath_self(task)
          || all[2] == towpath_self(task));
    puts("here");
    fflush(stdout);
    for (;;) {
        towpath_message *message = NULL;
        towpath_received about;
        OK(towpath_recv(task, NULL, TOWPATH_FOREVER, &message));
        towpath_message_about(message, &about);
        CHECK(about.source == parent && about.len == towpath_message_len(message));
        if (about.tag == 99) {
            int status = *(const unsigned char *)towpath_message_bytes(message);
            towpath_message_free(message);
            OK(towpath_leave(task));
            return status;
        }
        if (about.tag == 97) {
            towpath_message_free(message);
            echo_on_channel(task);
            continue;
        }
        if (about.tag == 98) {
            towpath_team *team = NULL;
            OK(towpath_team_of(task, towpath_message_bytes(message), about.len / 8, &team));
            team_work(task, team);
            towpath_team_free(team);
            towpath_message_free(message);
            continue;
        }
        OK(towpath_send(task, parent, about.tag + 1, towpath_message_bytes(message), about.len));
        towpath_message_free(message);
    }
}

static int64_t longest(void *data, const towpath_received *about, const void *bytes)
{
    ++*(int *)data;
    (void)bytes;
    return about->tag == 50 ? (int64_t)about->len : TOWPATH_SKIP;
}

static int64_t calls_in(void *data, const towpath_received *about, const void *bytes)
{
    (void)about;
    (void)bytes;
    return towpath_poll(data) == TOWPATH_E_BUSY ? TOWPATH_TAKE : TOWPATH_SKIP;
}

static void alone(towpath_task *task)
{
    towpath_id me = towpath_self(task);
    towpath_message *message = NULL;
    towpath_received about;
    char small[4], room[64];
    int asked = 0;

    CHECK(me != 0 && towpath_host_of(me) != 0);
    CHECK(towpath_abi() == TOWPATH_ABI && strchr(towpath_version(), '.') != NULL);
    CHECK(strcmp(towpath_strerror(TOWPATH_E_NO_TASK), "no such task, or it has ended") == 0);
    CHECK(strcmp(towpath_strerror(-1000), "no such code") == 0);

    CHECK(towpath_recv(task, NULL, 0, &message) == TOWPATH_NONE && message == NULL);
    CHECK(towpath_recv(task, NULL, SECOND / 1000, &message) == TOWPATH_NONE);
    CHECK(towpath_probe(task, NULL, &about) == TOWPATH_NONE);

    OK(towpath_send(task, me, 7, "seven", 5));
    OK(towpath_probe(task, NULL, &about));
    CHECK(about.source == me && about.tag == 7 && about.len == 5 && about.context == 0);
    CHECK(towpath_recv_into(task, NULL, small, sizeof small, 0, &about) == TOWPATH_E_TOO_LONG);
    CHECK(about.len == 5 && strstr(towpath_error(task), "5") != NULL);
    OK(towpath_recv_into(task, NULL, room, sizeof room, TOWPATH_FOREVER, &about));
    CHECK(about.len == 5 && memcmp(room, "seven", 5) == 0);

    towpath_part parts[3] = {{"ab", 2}, {NULL, 0}, {"cde", 3}};
    towpath_envelope envelope = {-8, 5, 12};
    OK(towpath_send_parts(task, me, &envelope, parts, 3));
    CHECK(towpath_probe(task, NULL, &about) == TOWPATH_NONE); /* another context */
    towpath_wanted wanted = {0};
    wanted.any_tag = 1;
    wanted.context = 5;
    OK(towpath_recv(task, &wanted, 0, &message));
    towpath_message_about(message, &about);
    CHECK(about.tag == -8 && about.context == 5 && about.format == 12 && about.len == 5);
    CHECK(memcmp(towpath_message_bytes(message), "abcde", 5) == 0);
    towpath_message_free(message);

    OK(towpath_send(task, me, 50, "x", 1));
    OK(towpath_send(task, me, 50, "xyz", 3));
    OK(towpath_send(task, me, 50, "xy", 2));
    OK(towpath_recv_by(task, 0, longest, &asked, &message));
    CHECK(asked == 3 && towpath_message_len(message) == 3);
    towpath_message_free(message);
    OK(towpath_recv_by(task, 0, calls_in, task, &message));
    CHECK(towpath_message_len(message) == 1);
    towpath_message_free(message);
    OK(towpath_recv(task, NULL, 0, &message));
    towpath_message_free(message);

    CHECK(towpath_recv_into(task, NULL, room, sizeof room, SECOND / 1000, NULL) == TOWPATH_NONE);

    uint64_t value = 0;
    OK(towpath_counter(task, "sent_to_self", &value));
    CHECK(value == 5);
    CHECK(towpath_counter(task, "no such", &value) == TOWPATH_E_NOT_FOUND);
    CHECK(strstr(towpath_error(task), "sent_by_daemon") != NULL);

    uint32_t rank = 9, size = 9;
    int placed = towpath_rank(&rank);
    CHECK(towpath_size(&size) == placed);
    CHECK(placed == TOWPATH_OK ? rank == 0 && size == 1 : rank == 9 && size == 9);
    size_t count = 9;
    OK(towpath_siblings(task, NULL, 0, &count));
    CHECK(count == 0 && towpath_context(task) == 0);

    /* A second task of the same process. */
    towpath_task *second = NULL;
    char why[64] = "";
    const char *socket = getenv("TOWPATH_TASK_SOCKET");
    CHECK(socket != NULL);
    OK(towpath_enrol_at(socket, 0, 0, &second, why, sizeof why));
    CHECK(towpath_self(second) != me && towpath_parent(second) == 0);
    OK(towpath_send(second, me, 51, "", 0));
    OK(towpath_recv(task, NULL, 20 * SECOND, &message));
    towpath_message_about(message, &about);
    CHECK(about.source == towpath_self(second) && about.tag == 51);
    towpath_message_free(message);
    OK(towpath_leave(second));
    CHECK(towpath_enrol_at("/no/such/socket", 0, 0, &second, why, sizeof why)
          == TOWPATH_E_NO_DAEMON);
    CHECK(second == NULL && why[0] != 0);
    /* Without the proof nobody is who he says. */
    OK(towpath_enrol_at(socket, me, 1, &second, NULL, 0));
    CHECK(towpath_self(second) != me);
    OK(towpath_leave(second));

    CHECK(towpath_descriptor(task) >= 0);
    CHECK(towpath_recv(task, NULL, 0, NULL) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_send(task, 0, 1, "", 0) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_send(task, me, 1, NULL, 1) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_send(NULL, me, 1, "", 0) == TOWPATH_E_ARGUMENT);

    towpath_loan *loan = NULL;
    OK(towpath_loan_new(task, 100000, &loan));
    CHECK(towpath_loan_len(loan) == 100000);
    memset(towpath_loan_bytes(loan), 'L', 100000);
    OK(towpath_send_loan(task, me, NULL, loan));
    OK(towpath_recv(task, NULL, 0, &message));
    CHECK(towpath_message_len(message) == 100000);
    CHECK(((const char *)towpath_message_bytes(message))[99999] == 'L');
    towpath_message_free(message);
    OK(towpath_loan_new(task, 1, &loan));
    towpath_loan_free(loan);
    CHECK(towpath_route(task, me) == TOWPATH_TO_ITSELF);
    OK(towpath_allow_direct(task, 1));
    CHECK(towpath_self(NULL) == 0);
    towpath_message_free(NULL);
    values(task);
}

static void together(towpath_task *task, const char *program)
{
    const char *args[] = {"child", NULL};
    const char *env[] = {"TOUR=1", NULL};
    towpath_spawn spawn = {0};
    towpath_id ids[3] = {0}, none;
    int codes[3] = {1, 1, 1}, code;
    uint64_t watches[3];
    size_t i, ended = 0, said = 0, silent = 0, children = 0, count = 0;
    uint64_t us = 0;

    OK(towpath_catch_output(task, 1));
    spawn.context = 6;
    spawn.program = program;
    spawn.args = args;
    spawn.env = env;
    spawn.count = 3;
    OK(towpath_spawn_tasks(task, &spawn, ids, codes));
    for (i = 0; i < 3; i++) {
        CHECK(codes[i] == TOWPATH_OK && ids[i] != 0);
        OK(towpath_watch_task(task, ids[i], &watches[i]));
    }

    char *big = malloc(300000), *back = malloc(300000);
    CHECK(big != NULL && back != NULL);
    for (i = 0; i < 300000; i++)
        big[i] = (char)(i * 7 + i / 251);
    towpath_part part = {big, 300000};
    towpath_envelope envelope = {10, 0, 0};
    OK(towpath_multicast(task, ids, 3, &envelope, &part, 1));
    for (i = 0; i < 3; i++) {
        towpath_wanted wanted = from(ids[i], 11);
        towpath_received about;
        memset(back, 0, 300000);
        OK(towpath_recv_into(task, &wanted, back, 300000, 20 * SECOND, &about));
        CHECK(about.len == 300000 && memcmp(big, back, 300000) == 0);
    }
    free(big);
    free(back);

    OK(towpath_task_lookup(task, ids[0], NULL));
    towpath_host_info hosts[8];
    OK(towpath_hosts(task, hosts, 8, &count));
    CHECK(count >= 1 && hosts[0].up && hosts[0].name[0] != 0);
    CHECK(strstr(hosts[0].arch, "-linux") != NULL);
    OK(towpath_clock(task, towpath_host_of(ids[0]), &us));
    CHECK(us > 1000000);
    CHECK(towpath_clock(task, 0, &us) == TOWPATH_E_ARGUMENT);
    towpath_task_info infos[16];
    OK(towpath_tasks(task, 0, infos, 16, &count));
    CHECK(count >= 4 && count <= 16);
    for (i = 0; i < count; i++)
        if (infos[i].parent == towpath_self(task)) {
            CHECK(infos[i].id == ids[0] || infos[i].id == ids[1] || infos[i].id == ids[2]);
            CHECK(infos[i].state == (TOWPATH_ENROLLED | TOWPATH_STARTED));
            children++;
        } else if (infos[i].id == towpath_self(task))
            CHECK(infos[i].parent == 0);
    CHECK(children == 3);

    channels(task, ids[1]);

    towpath_id members[4] = {towpath_self(task), ids[0], ids[1], ids[2]};
    towpath_team *team = NULL;
    for (i = 0; i < 3; i++)
        OK(towpath_send(task, ids[i], 98, members, sizeof members));
    OK(towpath_team_of(task, members, 4, &team));
    team_work(task, team);
    towpath_team_free(team);

    /* Each ends with a status of its own, the last by a signal. */
    for (i = 0; i < 2; i++) {
        unsigned char status = (unsigned char)(40 + i);
        OK(towpath_send(task, ids[i], 99, &status, 1));
    }
    OK(towpath_signal(task, ids[2], 9));
    while (ended < 3 || silent < 3) {
        towpath_event event;
        code = towpath_next_event(task, &event);
        if (code == TOWPATH_NONE) {
            OK(towpath_wait(task, 20 * SECOND));
            continue;
        }
        OK(code);
        if (event.kind == TOWPATH_OUTPUT) {
            CHECK(event.value == 1);
            CHECK(event.len == 0 || (event.len == 5 && memcmp(event.bytes, "here\n", 5) == 0));
            said += event.len;
            silent += event.len == 0;
        }
        if (event.kind != TOWPATH_TASK_ENDED)
            continue;
        for (i = 0; i < 3; i++)
            if (event.task == ids[i]) {
                CHECK(event.watch == watches[i]);
                if (event.ending != TOWPATH_UNKNOWN) {
                    CHECK(event.ending == (i == 2 ? TOWPATH_SIGNALLED : TOWPATH_EXITED));
                    CHECK(event.value == (i == 2 ? 9 : 40 + (int)i));
                    CHECK(strstr(towpath_ending_text(event.ending), i == 2 ? "signal" : "exited"));
                }
                ended++;
            }
    }
    CHECK(towpath_send(task, ids[0], 1, "", 0) == TOWPATH_E_NO_TASK);
    OK(towpath_team_of(task, members, 4, &team));
    towpath_operation barrier = {0};
    towpath_pending *here = NULL;
    barrier.what = TOWPATH_OP_BARRIER;
    OK(towpath_start(task, team, &barrier, &here));
    OK(towpath_test(task, team, here, TOWPATH_FOREVER));
    CHECK(towpath_finish(task, team, here, NULL) == TOWPATH_E_BROKEN);
    CHECK(towpath_barrier(task, team) == TOWPATH_E_BROKEN);
    towpath_team_free(team);
    CHECK(said == 3 * strlen("here\n"));
    OK(towpath_catch_output(task, 0));

    spawn.program = "/no/such/program";
    spawn.count = 1;
    OK(towpath_spawn_tasks(task, &spawn, &none, &code));
    CHECK(none == 0 && code == TOWPATH_E_NOT_STARTED);
    spawn.place = TOWPATH_ON_NAME;
    spawn.name = "no-such-host";
    code = towpath_spawn_tasks(task, &spawn, &none, codes);
    CHECK(code == TOWPATH_E_NO_HOST || (code == TOWPATH_OK && codes[0] == TOWPATH_E_NO_HOST));
}

static void groups(towpath_task *task)
{
    towpath_id me = towpath_self(task), members[4];
    uint32_t instance = 9, placed = 9;
    size_t count = 0;
    towpath_mail *mail = NULL;
    towpath_mail_entry entry;

    OK(towpath_join_group(task, "tour", &instance));
    CHECK(instance == 0);
    CHECK(towpath_join_group(task, "tour", NULL) == TOWPATH_E_IN_GROUP);
    OK(towpath_group_members(task, "tour", members, 4, &count));
    CHECK(count == 1 && members[0] == me);
    OK(towpath_group_barrier(task, "tour", 1));
    OK(towpath_leave_group(task, "tour"));
    CHECK(towpath_leave_group(task, "tour") < 0);

    towpath_group_state state = {0};
    towpath_group_info all[4];
    OK(towpath_join_group(task, "frost", NULL));
    OK(towpath_group_look(task, "frost", &state));
    CHECK(state.count == 1 && state.context == 0 && state.version > 0);
    OK(towpath_groups(task, all, 4, &count));
    CHECK(count == 1 && all[0].size == 1 && strcmp(all[0].name, "frost") == 0);
    OK(towpath_freeze_group(task, "frost", 1, &state));
    CHECK(state.count == 1 && state.context != 0);
    CHECK(towpath_freeze_group(task, "frost", 2, NULL) == TOWPATH_E_GROUP_FROZEN);
    OK(towpath_leave_group(task, "frost"));
    CHECK(towpath_leave_group(task, "frost") == TOWPATH_E_NO_GROUP);
    CHECK(towpath_group_look(task, "none", &state) == TOWPATH_E_NO_GROUP);

    towpath_team *team = NULL;
    OK(towpath_team_of_group(task, "alone", 1, &team));
    OK(towpath_barrier(task, team));
    CHECK(towpath_team_size(team) == 1 && towpath_team_rank(team) == 0);
    towpath_team_free(team);
    CHECK(towpath_team_of(task, NULL, 0, &team) == TOWPATH_E_ARGUMENT && team == NULL);
    CHECK(towpath_join_group(task, "\xff", NULL) == TOWPATH_E_ARGUMENT);

    CHECK(towpath_team_of_group(task, "alone", 1, &team) == TOWPATH_E_IN_GROUP && team == NULL);

    towpath_letter letter = {"letter", 6, TOWPATH_MANY, 12}, later = {"later", 5, TOWPATH_MANY, 0};
    towpath_mail_listed listed[4];
    OK(towpath_mail_put(task, "box", TOWPATH_ANY_INDEX, &letter, &placed));
    CHECK(placed == 0);
    OK(towpath_mail_put(task, "box", TOWPATH_ANY_INDEX, &later, &placed));
    CHECK(placed == 1 && towpath_mail_put(task, "box", 0, NULL, NULL) == TOWPATH_E_ARGUMENT);
    OK(towpath_mailboxes(task, "b*x", listed, 4, &count));
    CHECK(count == 2 && listed[1].index == 1 && listed[1].owner == me);
    CHECK(strcmp(listed[0].name, "box") == 0 && listed[0].rules == TOWPATH_MANY);
    OK(towpath_mailboxes(task, "c*", NULL, 0, &count));
    CHECK(count == 0);
    OK(towpath_mail_get(task, "box", TOWPATH_ANY_INDEX, 1, TOWPATH_MAIL_TAKE, &mail));
    towpath_mail_look(mail, &entry);
    CHECK(entry.index == 1 && entry.len == 5 && entry.format == 0);
    towpath_mail_free(mail);
    OK(towpath_mail_get(task, "box", TOWPATH_ANY_INDEX, 0, TOWPATH_MAIL_TAKE, &mail));
    towpath_mail_look(mail, &entry);
    CHECK(entry.owner == me && entry.len == 6 && memcmp(entry.bytes, "letter", 6) == 0);
    CHECK(entry.rules == TOWPATH_MANY && entry.format == 12);
    towpath_mail_free(mail);
    CHECK(towpath_mail_get(task, "box", 0, 0, 0, &mail) == TOWPATH_E_NOT_FOUND && mail == NULL);
    CHECK(towpath_mail_delete(task, "box", 0) == TOWPATH_E_NOT_FOUND);
}

int main(int argc, char **argv)
{
    towpath_task *task = NULL;
    char why[256] = "";
    int code = towpath_enrol(&task, why, sizeof why);
    if (code != TOWPATH_OK) {
        fprintf(stderr, "%s: %s\n", towpath_strerror(code), why);
        return 2;
    }
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child(task);
    alone(task);
    puts("alone");
    together(task, argv[0]);
    puts("together");
    groups(task);
    puts("groups");
    OK(towpath_leave(task));
    return 0;
}
