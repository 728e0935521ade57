/* What some members of a team start and others wait for: every operation, the barriers by messages
 * and, on one host, without. A task for each member (`towpath run -n`). Exit status 0: all of it
 * came together, and each got what is its own. */
#include "check.h"

enum { ROUNDS = 40, KINDS = 10 };

static const int64_t MINUTE = INT64_C(60000000000);

/* The sum of the first `count` ranks' numbers in a round. */
static uint64_t sum(uint64_t round, uint64_t count)
{
    return count * 1000 * round + count * (count - 1) / 2;
}

/* Whether `output` is what member `rank` of `size` gets of operation `kind`. */
static int is_right(const towpath_output *output, uint32_t kind, uint64_t round, uint32_t root,
                    uint32_t rank, uint32_t size)
{
    size_t parts = towpath_output_count(output), i;
    uint64_t first = 1000 * round, expected, got;
    towpath_part part;
    int at_root = rank == root, all = kind == TOWPATH_OP_GATHER || kind == TOWPATH_OP_ALL_GATHER
                                      || kind == TOWPATH_OP_ALL_TO_ALL;

    if (kind == TOWPATH_OP_BARRIER || (kind == TOWPATH_OP_EXCLUSIVE_SCAN && rank == 0)
        || (!at_root && (kind == TOWPATH_OP_REDUCE || kind == TOWPATH_OP_GATHER)))
        return parts == 0;
    if (parts != (all ? size : 1))
        return 0;
    for (i = 0; i < parts; i++) {
        if (towpath_output_part(output, i, &part) != TOWPATH_OK || part.len != sizeof got)
            return 0;
        memcpy(&got, part.bytes, sizeof got);
        expected = first + i;
        if (kind == TOWPATH_OP_BROADCAST || kind == TOWPATH_OP_SCATTER)
            expected = first + root;
        else if (kind == TOWPATH_OP_REDUCE || kind == TOWPATH_OP_ALL_REDUCE)
            expected = sum(round, size);
        else if (kind == TOWPATH_OP_SCAN)
            expected = sum(round, rank + 1);
        else if (kind == TOWPATH_OP_EXCLUSIVE_SCAN)
            expected = sum(round, rank);
        if (got != expected)
            return 0;
    }
    return 1;
}

int main(void)
{
    towpath_task *task = NULL;
    towpath_team *team = NULL;
    towpath_pending *open[KINDS + 1];
    towpath_output *output;
    towpath_operator add = {0};
    towpath_part parts[16];
    uint32_t rank, size, root, kind, i;
    uint64_t round, mine;

    if (towpath_enrol(&task, NULL, 0) != TOWPATH_OK)
        return 2;
    OK(towpath_team_of_group(task, "mixed", (uint32_t)atoi(getenv("TOWPATH_SIZE")), &team));
    rank = towpath_team_rank(team);
    size = towpath_team_size(team);
    CHECK(size <= 16);
    add.function = TOWPATH_SUM;
    add.element = TOWPATH_U64;
    for (round = 1; round <= ROUNDS; round++) {
        mine = 1000 * round + rank;
        root = (uint32_t)(round % size);
        for (i = 0; i < size; i++) {
            parts[i].bytes = &mine;
            parts[i].len = sizeof mine;
        }
        for (kind = 1; kind <= KINDS; kind++) {
            int gives = kind != TOWPATH_OP_BARRIER
                        && (rank == root
                            || (kind != TOWPATH_OP_BROADCAST && kind != TOWPATH_OP_SCATTER));
            int many = kind == TOWPATH_OP_SCATTER || kind == TOWPATH_OP_ALL_TO_ALL;
            towpath_operation op = {0};
            op.what = kind;
            op.root = root;
            op.parts = parts;
            op.count = !gives ? 0 : many ? size : 1;
            op.by = &add;
            open[kind] = NULL;
            output = NULL;
            if ((rank + round + kind) % 2 == 0) {
                OK(towpath_start(task, team, &op, &open[kind]));
                continue;
            }
            OK(towpath_perform(task, team, &op, &output));
            CHECK(is_right(output, kind, round, root, rank, size));
            towpath_output_free(output);
        }
        /* Woken also by what comes without messages. */
        for (kind = KINDS; kind >= 1; kind--)
            if (open[kind] != NULL) {
                while (towpath_test(task, team, open[kind], 0) == TOWPATH_NONE)
                    OK(towpath_wait(task, MINUTE));
                OK(towpath_finish(task, team, open[kind], &output));
                CHECK(is_right(output, kind, round, root, rank, size));
                towpath_output_free(output);
            }
    }
    towpath_team_free(team);
    OK(towpath_leave(task));
    return 0;
}
