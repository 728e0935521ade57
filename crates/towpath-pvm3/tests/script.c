/* Does calls of the PVM interface that it reads, one a line, and prints what they give. Run with
 * PVM and with Towpath, the output must be the same: numbers of tasks and buffers are printed as
 * names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pvm3.h>

#define SLOTS 4
#define COUNT 12
#define MARK 999999

static int slots[SLOTS];
static int me;
/* End of the names of mailboxes and groups. */
static char own[16];

/* A result: a code, or that it is none. */
static void result(int value)
{
    if (value < 0)
        printf(" %d", value);
    else
        printf(" ok");
}

/* The name of a buffer. */
static void buffer(int id)
{
    int at;
    if (id <= 0) {
        printf(" %d", id);
        return;
    }
    for (at = 0; at < SLOTS; at++)
        if (slots[at] == id) {
            printf(" slot%d", at);
            return;
        }
    printf(" other");
}

static int slot(int at)
{
    return at < SLOTS ? slots[at] : 4321;
}

/* What was freed, or came to be freed, is no slot any more. */
static void forget(int id)
{
    int at;
    for (at = 0; at < SLOTS; at++)
        if (slots[at] == id)
            slots[at] = 0;
}

/* Waits until all that this task has sent to itself is there. */
static void settle(void)
{
    int sending = pvm_setsbuf(pvm_mkbuf(PvmDataDefault));
    int receiving = pvm_setrbuf(0);
    int context = pvm_setcontext(54321);
    int (*match)(int, int, int) = pvm_recvf(0);
    pvm_send(me, MARK);
    pvm_recv(me, MARK);
    pvm_recvf(match);
    pvm_setcontext(context);
    pvm_freebuf(pvm_setrbuf(receiving));
    pvm_freebuf(pvm_setsbuf(sending));
}

#define TYPES(DO) \
    DO(0, byte, char) \
    DO(1, short, short) \
    DO(2, ushort, unsigned short) \
    DO(3, int, int) \
    DO(4, uint, unsigned int) \
    DO(5, long, long) \
    DO(6, ulong, unsigned long) \
    DO(7, float, float) \
    DO(8, double, double) \
    DO(9, cplx, float) \
    DO(10, dcplx, double)

static int pack(int type, int count, int stride, int seed)
{
    int at;
    switch (type) {
#define PACK(number, name, kind) \
    case number: { \
        static kind data[8 * COUNT]; \
        for (at = 0; at < 8 * COUNT; at++) \
            data[at] = (kind)((seed + 7 * at) % 120); \
        return pvm_pk##name(data, count, stride); \
    }
        TYPES(PACK)
    }
    return 1;
}

/* Bytes behind the last one: PVM unpacks what happens to be in its padding. */
static int unpack(int type, int count, int stride)
{
    int at, code;
    switch (type) {
#define UNPACK(number, name, kind) \
    case number: { \
        static kind data[8 * COUNT]; \
        memset(data, 0, sizeof data); \
        code = pvm_upk##name(data, count, stride); \
        for (at = 0; at < 8 * COUNT; at++) \
            if (data[at] && !(number == 0 && code < 0)) \
                printf(" %d:%g", at, (double)data[at]); \
        return code; \
    }
        TYPES(UNPACK)
    }
    return 1;
}

static void info(int id)
{
    struct pvmminfo about;
    int code = pvm_getminfo(id, &about);
    result(code);
    if (code == PvmOk)
        printf(" len %d ctx %d tag %d wid %d enc %x src %s", about.len, about.ctx, about.tag,
               about.wid, about.enc,
               about.src == me ? "me" : about.src < 0 ? "daemon" : "other");
}

static void received(int id)
{
    int len, tag, from;
    buffer(id);
    if (id > 0) {
        pvm_bufinfo(id, &len, &tag, &from);
        printf(" len %d tag %d from %s", len, tag, from == me ? "me" : "daemon");
    }
}

static int handled(int id)
{
    int tag;
    pvm_bufinfo(id, 0, &tag, 0);
    printf(" handled %d in %d send %d", tag, pvm_getcontext(), pvm_getsbuf());
    return 0;
}

static int at_most(int id, int tid, int limit)
{
    int tag;
    (void)tid;
    pvm_bufinfo(id, 0, &tag, 0);
    return tag > 0 && tag <= limit ? tag : 0;
}

static void clear(void)
{
    int at;
    settle();
    pvm_recvf(0);
    pvm_setcontext(-1);
    while (pvm_nrecv(-1, -1) > 0)
        ;
    pvm_setcontext(0);
    for (at = 9; at < 40; at++)
        pvm_delmhf(at);
    pvm_freebuf(pvm_setsbuf(0));
    pvm_freebuf(pvm_setrbuf(0));
    for (at = 0; at < SLOTS; at++) {
        if (slots[at])
            pvm_freebuf(slots[at]);
        slots[at] = 0;
    }
    for (at = 0; at < 3; at++) {
        char name[32], group[32];
        int index;
        sprintf(name, "box%d%s", at, own);
        sprintf(group, "grp%d%s", at, own);
        for (index = 0; index < 12; index++)
            pvm_delinfo(name, index, 0);
        pvm_lvgroup(group);
    }
    /* A call of PVM's own that fails leaves the daemon's answer there. */
    pvm_freebuf(pvm_setrbuf(0));
    pvm_setopt(PvmRoute, PvmAllowDirect);
    pvm_setopt(PvmFragSize, 4080);
    pvm_setopt(PvmResvTids, 0);
    pvm_setopt(PvmShowTids, 1);
}

static void run(const char *call, int a, int b, int c, int d)
{
    char box[32], group[32];
    int dead[1], id, value, more;
    struct timeval none = {0, 0};
    sprintf(box, "box%d%s", a % 3, own);
    sprintf(group, "grp%d%s", a % 3, own);
#define IS(name) (strcmp(call, name) == 0)
    if (IS("clear"))
        clear();
    else if (IS("initsend")) {
        forget(pvm_getsbuf());
        result(pvm_initsend(a));
    } else if (IS("mkbuf")) {
        id = slot(b);
        if (id > 0) {
            forget(id);
            pvm_freebuf(id);
        }
        id = pvm_mkbuf(a);
        slots[b % SLOTS] = id > 0 ? id : 0;
        result(id);
    } else if (IS("freebuf")) {
        id = slot(a);
        forget(id);
        result(pvm_freebuf(id));
    } else if (IS("setsbuf"))
        buffer(pvm_setsbuf(slot(a)));
    else if (IS("setrbuf"))
        buffer(pvm_setrbuf(slot(a)));
    else if (IS("getsbuf"))
        buffer(pvm_getsbuf());
    else if (IS("getrbuf"))
        buffer(pvm_getrbuf());
    else if (IS("keep")) {
        /* The receive buffer becomes a slot's. */
        id = pvm_setrbuf(0);
        if (id > 0) {
            value = slots[a % SLOTS];
            if (value > 0 && value != id) {
                forget(value);
                pvm_freebuf(value);
            }
            slots[a % SLOTS] = id;
        }
        buffer(id);
    } else if (IS("pack"))
        result(pack(a, b, c, d));
    else if (IS("unpack"))
        result(unpack(a, b, c));
    else if (IS("packf"))
        result(pvm_packf("%d %3.2d %hd %lf", a, (int[]){a, b, c, d, a, b}, b, c * 0.5));
    else if (IS("info"))
        info(slot(a));
    else if (IS("infos"))
        info(pvm_getsbuf());
    else if (IS("infor"))
        info(pvm_getrbuf());
    else if (IS("pkmesg"))
        result(pvm_pkmesg(slot(a)));
    else if (IS("pkmesgbody"))
        result(pvm_pkmesgbody(slot(a)));
    else if (IS("upkmesg")) {
        id = pvm_upkmesg();
        result(id);
        if (id > 0) {
            info(id);
            pvm_freebuf(id);
        }
    } else if (IS("send"))
        result(pvm_send(a ? me : 0x3fffe, b));
    else if (IS("sendbad"))
        result(pvm_send(a, b));
    else if (IS("mcast")) {
        int to[2];
        to[0] = me;
        to[1] = 0x3fffe;
        result(pvm_mcast(to, a, b));
    } else if (IS("psend")) {
        static double data[COUNT] = {1, 2, 3, 4, 5};
        result(pvm_psend(me, a, data, b, c));
    } else if (IS("precv")) {
        static double data[COUNT];
        settle();
        if (pvm_probe(-1, a) > 0) {
            value = more = 0; /* A refused call leaves them. */
            forget(pvm_getrbuf());
            result(pvm_precv(-1, a, data, b, c, &id, &value, &more));
            printf(" tag %d len %d", value, more);
        }
    } else if (IS("nrecv")) {
        settle();
        forget(pvm_getrbuf());
        received(pvm_nrecv(a ? me : -1, b));
    } else if (IS("trecv")) {
        settle();
        forget(pvm_getrbuf());
        received(pvm_trecv(-1, a, &none));
    } else if (IS("recv")) {
        settle();
        if (pvm_probe(-1, a) > 0) {
            forget(pvm_getrbuf());
            received(pvm_recv(-1, a));
        }
    } else if (IS("probe")) {
        settle();
        received(pvm_probe(a ? me : -1, b));
    } else if (IS("recvf"))
        pvm_recvf(a ? at_most : 0);
    else if (IS("addmhf"))
        printf(" %d", pvm_addmhf(a ? me : -1, b, c, handled));
    else if (IS("delmhf"))
        result(pvm_delmhf(a));
    else if (IS("setcontext"))
        printf(" %d", pvm_setcontext(a));
    else if (IS("setopt"))
        printf(" %d", pvm_setopt(a, b));
    else if (IS("getopt"))
        printf(" %d", pvm_getopt(a));
    else if (IS("join"))
        printf(" %d", pvm_joingroup(group));
    else if (IS("leave"))
        printf(" %d", pvm_lvgroup(group));
    else if (IS("gsize"))
        printf(" %d", pvm_gsize(group));
    else if (IS("getinst"))
        printf(" %d", pvm_getinst(group, b ? me : 5));
    else if (IS("gettid")) {
        value = pvm_gettid(group, b);
        printf(value == me ? " me" : " %d", value);
    } else if (IS("barrier"))
        printf(" %d", pvm_barrier(group, b));
    else if (IS("bcast"))
        printf(" %d", pvm_bcast(group, b));
    else if (IS("putinfo")) {
        if (slot(b) > 0 && slot(b) != 4321)
            printf(" %d", pvm_putinfo(box, slot(b), c));
    } else if (IS("recvinfo")) {
        forget(pvm_getrbuf());
        id = pvm_recvinfo(box, b, c);
        result(id);
    } else if (IS("delinfo"))
        printf(" %d", pvm_delinfo(box, b, 0));
    else if (IS("insert"))
        printf(" %d", pvm_insert(box, b, c));
    else if (IS("lookup")) {
        value = -1;
        id = pvm_lookup(box, b, &value);
        printf(" %d %d", id, id < 0 ? 0 : value);
    } else if (IS("notify")) {
        dead[0] = 0x3fffe;
        result(pvm_notify(a, b, c, dead));
    } else if (IS("notifygone")) {
        /* About a task of this host that there never was. */
        dead[0] = (me & ~0x3ffff) | 0x3fffe;
        result(pvm_notify(a, b, 1, dead));
    } else if (IS("pstat"))
        printf(" %d", pvm_pstat(a ? me : b));
    else
        printf(" unknown");
}

int main(void)
{
    char line[128], call[32];
    int a, b, c, d;
    me = pvm_mytid();
    if (me < 0)
        return 3;
    pvm_setopt(PvmAutoErr, 0);
    while (fgets(line, sizeof line, stdin)) {
        a = b = c = d = 0;
        if (sscanf(line, "%31s %d %d %d %d", call, &a, &b, &c, &d) < 1)
            continue;
        printf("%s %d %d %d %d:", call, a, b, c, d);
        run(call, a, b, c, d);
        /* Handlers run when messages come in: in both cases now. */
        if (strcmp(call, "send") == 0 || strcmp(call, "psend") == 0)
            settle();
        printf("\n");
        fflush(stdout);
    }
    pvm_exit();
    return 0;
}
