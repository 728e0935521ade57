/* Makes calls that fail, and says which did not give the code that PVM's manual has for them. */
#include <stdio.h>
#include <string.h>
#include <pvm3.h>

static int wrong;

/* PVM's own, which its header does not have. */
extern int pvm_errno;

static void expect(const char *call, int got, int code)
{
    if (got != code) {
        printf("%s gave %d, not %d\n", call, got, code);
        wrong++;
    }
}

#define EXPECT(code, call) expect(#call, call, code)

static int nothing(int id)
{
    return id;
}

/* The code that is in an array behind a call. */
static int code_of_spawn(char *program, int flags, char *where)
{
    int tid = 0;
    pvm_spawn(program, 0, flags, where, 1, &tid);
    return tid;
}

/* More than one call may start. */
static int code_of_too_many(char *program)
{
    static int tids[5000];
    int started = pvm_spawn(program, 0, PvmTaskDefault, "", 5000, tids);
    return started > 0 ? started : started < 0 ? started : tids[0];
}

static int code_of_addhosts(char *name)
{
    int info = 0;
    pvm_addhosts(&name, 1, &info);
    return info;
}

static int code_of_delhosts(char *name)
{
    int info = 0;
    pvm_delhosts(&name, 1, &info);
    return info;
}

static void buffers(void)
{
    int ints[4] = {1, 2, 3, 4}, me = pvm_mytid(), value;
    long big = 1L << 40;
    char text[8];
    EXPECT(PvmBadParam, pvm_initsend(99));
    EXPECT(PvmBadParam, pvm_freebuf(-1));
    EXPECT(PvmNoSuchBuf, pvm_freebuf(4321));
    EXPECT(PvmNoSuchBuf, pvm_setsbuf(4321));
    EXPECT(PvmNoBuf, pvm_send(me, 1));
    EXPECT(PvmNoBuf, pvm_pkint(ints, 1, 1));
    EXPECT(PvmNoBuf, pvm_upkint(ints, 1, 1));
    pvm_initsend(PvmDataDefault);
    EXPECT(PvmBadParam, pvm_pkint(0, 1, 1));
    EXPECT(PvmOverflow, pvm_pklong(&big, 1, 1));
    EXPECT(PvmBadParam, pvm_send(me, -5));
    EXPECT(PvmBadParam, pvm_send(0, 5));
    pvm_initsend(PvmDataInPlace);
    EXPECT(PvmNotImpl, pvm_pkstr("text"));
    EXPECT(PvmNotImpl, pvm_pkint(ints, 2, 2));
    /* More than a message may have; nothing is touched. */
    EXPECT(PvmNoMem, pvm_pkint(ints, 0x20000000, 1));
    pvm_initsend(PvmDataDefault);
    pvm_pkint(ints, 1, 1);
    pvm_send(me, 2);
    pvm_recv(me, 2);
    EXPECT(PvmBadParam, pvm_upkint(0, 1, 1));
    EXPECT(PvmNoData, pvm_upkint(ints, 4, 1));
    EXPECT(PvmNoData, pvm_upkstr(text));
    EXPECT(PvmNoSuchBuf, pvm_bufinfo(4321, &value, 0, 0));
    /* Raw, of a machine with other formats: only bytes can be had. */
    pvm_initsend(PvmDataInPlace);
    pvm_pkint(ints, 1, 1);
    pvm_setrbuf(pvm_setsbuf(0));
    EXPECT(PvmBadMsg, pvm_upkint(ints, 1, 1));
}

static void tasks(char *program)
{
    int me = pvm_mytid(), tid, from;
    char *orphan[] = {"orphan", 0};
    EXPECT(PvmNoParent, pvm_parent());
    EXPECT(PvmBadParam, pvm_pstat(0));
    EXPECT(PvmNoTask, pvm_pstat((me & ~0x3ffff) | 0x3fffe));
    EXPECT(PvmNoFile, code_of_spawn("no such program", PvmTaskDefault, ""));
    EXPECT(PvmNoHost, code_of_spawn(program, PvmTaskHost, "nobody"));
    EXPECT(PvmBadParam, pvm_spawn(program, 0, PvmTaskDefault, "", 0, &tid));
    EXPECT(PvmOutOfRes, code_of_too_many(program));
    EXPECT(PvmBadParam, pvm_sendsig(0, 15));
    EXPECT(PvmNoHost, pvm_mstat("nobody"));
    EXPECT(PvmNoHost, code_of_delhosts("nobody"));
    EXPECT(PvmCantStart, code_of_addhosts("nobody"));
    EXPECT(PvmDupHost, pvm_start_pvmd(0, 0, 0));
    EXPECT(PvmBadParam, pvm_notify(99, 1, 1, &me));
    EXPECT(PvmBadParam, pvm_setopt(99, 1));
    EXPECT(PvmNotFound, pvm_delmhf(77));
    pvm_addmhf(-1, 7, -1, nothing);
    EXPECT(PvmExists, pvm_addmhf(-1, 7, 3, nothing));
    pvm_spawn(program, orphan, 64, "", 1, &tid);
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 1);
    pvm_recv(tid, 2);
    pvm_upkint(&from, 1, 1);
    expect("pvm_parent() of an orphan", from, PvmParentNotSet);
    /* Answers that are no failures leave pvm_errno alone. */
    pvm_errno = -77;
    pvm_parent();
    pvm_mstat("nobody");
    pvm_pstat((me & ~0x3ffff) | 0x3fffe);
    expect("pvm_errno after answers", pvm_errno, -77);
    pvm_pstat(0);
    expect("pvm_errno after a failure", pvm_errno, PvmBadParam);
}

static void wait_ids(void)
{
    static int big[100000];
    int me = pvm_mytid(), encoding, id;
    struct pvmminfo info;
    for (encoding = 0; encoding < 3; encoding++) {
        pvm_initsend(encoding);
        pvm_pkint(big, encoding == 1 ? 100000 : 1, 1);
        pvm_getminfo(pvm_getsbuf(), &info);
        info.wid = 4711;
        pvm_setminfo(pvm_getsbuf(), &info);
        pvm_send(me, 3);
        id = pvm_recv(me, 3);
        pvm_getminfo(id, &info);
        expect("the wait id of a message", info.wid, 4711);
        expect("the length of a message", info.len, encoding == 1 ? 400000 : 4);
        EXPECT(0, pvm_upkint(big, 1, 1));
        pvm_setsbuf(id);
        pvm_send(me, 4);
        pvm_getminfo(pvm_recv(me, 4), &info);
        expect("the wait id of a message passed on", info.wid, 4711);
        pvm_initsend(encoding);
        pvm_send(me, 5);
        pvm_getminfo(pvm_recv(me, 5), &info);
        expect("the wait id of another message", info.wid, 0);
    }
}

static void frozen_groups(void)
{
    EXPECT(0, pvm_joingroup("f"));
    EXPECT(1, pvm_freezegroup("f", 1));
    pvm_errno = -77;
    EXPECT(PvmDupGroup, pvm_freezegroup("f", 1));
    expect("pvm_errno after pvm_freezegroup", pvm_errno, -77);
    EXPECT(PvmNotInGroup, pvm_joingroup("f"));
    EXPECT(0, pvm_barrier("f", 1));
    EXPECT(0, pvm_lvgroup("f"));
    EXPECT(PvmNoGroup, pvm_lvgroup("f"));
    EXPECT(PvmNoGroup, pvm_gsize("f"));
    EXPECT(PvmNoGroup, pvm_freezegroup("f", 1));
    EXPECT(0, pvm_joingroup("f"));
    EXPECT(0, pvm_lvgroup("f"));
}

static void groups_and_mailboxes(void)
{
    int me = pvm_mytid(), value = 7, id;
    EXPECT(PvmNullGroup, pvm_joingroup(""));
    EXPECT(PvmNullGroup, pvm_joingroup(0));
    EXPECT(0, pvm_joingroup("g"));
    EXPECT(PvmDupGroup, pvm_joingroup("g"));
    EXPECT(PvmNoGroup, pvm_gsize("none"));
    EXPECT(PvmNoGroup, pvm_barrier("none", 1));
    EXPECT(PvmNoInst, pvm_gettid("g", 5));
    EXPECT(PvmNotInGroup, pvm_getinst("g", me + 1));
    EXPECT(PvmMismatch, pvm_barrier("g", 0));
    EXPECT(PvmBadParam, pvm_reduce(PvmSum, 0, 1, PVM_INT, 1, "g", 0));
    EXPECT(PvmBadParam, pvm_reduce(PvmSum, &value, 1, 99, 1, "g", 0));
    EXPECT(PvmNoInst, pvm_reduce(PvmSum, &value, 1, PVM_INT, 1, "g", 3));
    EXPECT(0, pvm_lvgroup("g"));
    EXPECT(PvmNoGroup, pvm_lvgroup("g"));
    EXPECT(PvmNotFound, pvm_recvinfo("none", 0, 0));
    EXPECT(PvmNotFound, pvm_delinfo("none", 0, 0));
    EXPECT(PvmNotFound, pvm_lookup("none", 0, &value));
    EXPECT(PvmBadParam, pvm_recvinfo("", 0, 0));
    EXPECT(0, pvm_insert("box", 0, 5));
    EXPECT(PvmDenied, pvm_insert("box", 0, 6));
    EXPECT(1, pvm_insert("box", -1, 6));
    EXPECT(PvmDenied, pvm_insert("box", 1, 6));
    id = pvm_lookup("box", 0, &value);
    expect("the value that was put", id == 0 ? value : id, 5);
    EXPECT(PvmNotFound, pvm_freecontext(77));
}

int main(int argc, char **argv)
{
    int code;
    (void)argc;
    pvm_setopt(PvmAutoErr, 0);
    if (argc > 1) {
        int to;
        pvm_recv(-1, 1);
        pvm_bufinfo(pvm_getrbuf(), 0, 0, &to);
        code = pvm_parent();
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&code, 1, 1);
        pvm_send(to, 2);
        pvm_exit();
        return 0;
    }
    code = pvm_mytid();
    if (code == PvmSysErr) {
        printf("no virtual machine\n");
        return 0;
    }
    buffers();
    tasks(argv[0]);
    groups_and_mailboxes();
    wait_ids();
    frozen_groups();
    printf("%d wrong\n", wrong);
    pvm_exit();
    return 0;
}
