/* Towpath: the C interface of PVM 3.4.6.
 *
 * Written from the interface; link with -lpvm3 (which holds the group functions too). What calls
 * mean stands in PVM's manual pages; where Towpath differs, in docs/pvm.md.
 */
#ifndef TOWPATH_PVM3_H
#define TOWPATH_PVM3_H
#define _PVM3_H_

#include <sys/time.h>

#define PVM_VER "3.4.6"
#define PVM_MAJOR_VERSION 3
#define PVM_MINOR_VERSION 4
#define PVM_PATCH_VERSION 6

/* How numbers are packed: pvm_mkbuf, pvm_initsend. */
#define PvmDataDefault 0
#define PvmDataRaw 1
#define PvmDataInPlace 2
#define PvmDataFoo PvmDataDefault
#define PvmDataTrace 4

/* Flags of pvm_spawn. */
#define PvmTaskDefault 0
#define PvmTaskHost 1
#define PvmTaskArch 2
#define PvmTaskDebug 4
#define PvmTaskTrace 8
#define PvmMppFront 16
#define PvmHostCompl 32
#define PvmNoSpawnParent 64

/* Kinds of pvm_notify, and a flag. */
#define PvmTaskExit 1
#define PvmHostDelete 2
#define PvmHostAdd 3
#define PvmRouteAdd 4
#define PvmRouteDelete 5
#define PvmNotifyCancel 256

/* pvm_setopt and pvm_getopt. */
#define PvmRoute 1
#define PvmDontRoute 1
#define PvmAllowDirect 2
#define PvmRouteDirect 3
#define PvmDebugMask 2
#define PvmAutoErr 3
#define PvmOutputTid 4
#define PvmOutputCode 5
#define PvmTraceTid 6
#define PvmTraceCode 7
#define PvmTraceBuffer 8
#define PvmTraceOptions 9
#define PvmTraceFull 1
#define PvmTraceTime 2
#define PvmTraceCount 3
#define PvmFragSize 10
#define PvmResvTids 11
#define PvmSelfOutputTid 12
#define PvmSelfOutputCode 13
#define PvmSelfTraceTid 14
#define PvmSelfTraceCode 15
#define PvmSelfTraceBuffer 16
#define PvmSelfTraceOptions 17
#define PvmShowTids 18
#define PvmPollType 19
#define PvmPollConstant 1
#define PvmPollSleep 2
#define PvmPollTime 20
#define PvmOutputContext 21
#define PvmTraceContext 22
#define PvmSelfOutputContext 23
#define PvmSelfTraceContext 24
#define PvmNoReset 25

/* Whose trace mask. */
#define PvmTaskSelf 0
#define PvmTaskChild 1

/* The context that programs begin in. */
#define PvmBaseContext 0

/* Mailboxes: pvm_putinfo (the first three), pvm_recvinfo (the others). */
#define PvmMboxDefault 0
#define PvmMboxPersistent 1
#define PvmMboxMultiInstance 2
#define PvmMboxOverWritable 4
#define PvmMboxFirstAvail 8
#define PvmMboxReadAndDelete 16
#define PvmMboxWaitForInfo 32
#define PvmMboxMaxFlag 512
#define PvmMboxDirectIndexShift 10
#define PvmMboxMaxDirectIndex (1u << (31 - PvmMboxDirectIndexShift))
/* The index that flags ask for, and the flags that ask for an index. */
#define PvmMboxDirectIndexOf(flags) \
    (((flags) >> PvmMboxDirectIndexShift) & (PvmMboxMaxDirectIndex - 1))
#define PvmMboxDirectIndex(index) \
    ((unsigned)(index) < PvmMboxMaxDirectIndex ? (index) << PvmMboxDirectIndexShift : 0)

/* Types of pvm_psend, pvm_precv and of group operations (these: up to PVM_LONG). */
#define PVM_STR 0
#define PVM_BYTE 1
#define PVM_SHORT 2
#define PVM_INT 3
#define PVM_FLOAT 4
#define PVM_CPLX 5
#define PVM_DOUBLE 6
#define PVM_DCPLX 7
#define PVM_LONG 8
#define PVM_USHORT 9
#define PVM_UINT 10
#define PVM_ULONG 11

/* Mailboxes of tasks that do a part of the system's work. */
#define PVMNORESETCLASS "###_PVM_NO_RESET_###"
#define PVMHOSTERCLASS "###_PVM_HOSTER_###"
#define PVMTASKERCLASS "###_PVM_TASKER_###"
#define PVMTRACERCLASS "###_PVM_TRACER_###"
#define PVMRMCLASS "###_PVM_RM_###"

/* Results that are no success. */
#define PvmOk            0 /* success */
#define PvmBadParam      (-2) /* a parameter makes no sense */
#define PvmMismatch      (-3) /* counts or encodings differ */
#define PvmOverflow      (-4) /* does not fit the encoding */
#define PvmNoData        (-5) /* the message has ended */
#define PvmNoHost        (-6) /* no such host */
#define PvmNoFile        (-7) /* no such program */
#define PvmDenied        (-8) /* belongs to somebody else */
#define PvmNoMem         (-10) /* no memory */
#define PvmBadMsg        (-12) /* cannot be decoded */
#define PvmSysErr        (-14) /* no daemon answers */
#define PvmNoBuf         (-15) /* there is no current buffer */
#define PvmNoSuchBuf     (-16) /* no such buffer */
#define PvmNullGroup     (-17) /* a group without a name */
#define PvmDupGroup      (-18) /* already in the group */
#define PvmNoGroup       (-19) /* no such group */
#define PvmNotInGroup    (-20) /* not in the group */
#define PvmNoInst        (-21) /* no such instance */
#define PvmHostFail      (-22) /* the host failed */
#define PvmNoParent      (-23) /* nobody spawned this task */
#define PvmNotImpl       (-24) /* cannot be done */
#define PvmDSysErr       (-25) /* the daemon failed */
#define PvmBadVersion    (-26) /* versions differ */
#define PvmOutOfRes      (-27) /* a limit was reached */
#define PvmDupHost       (-28) /* the host is there already */
#define PvmCantStart     (-29) /* the daemon cannot be started */
#define PvmAlready       (-30) /* under way already */
#define PvmNoTask        (-31) /* no such task */
#define PvmNotFound      (-32) /* not found */
#define PvmExists        (-33) /* is there already */
#define PvmHostrNMstr    (-34) /* not on the first host */
#define PvmParentNotSet  (-35) /* spawned with PvmNoSpawnParent */
#define PvmIPLoopback    (-36) /* the host's address is the loopback address */

/* Names of PVM 3.3. */
#define PvmNoEntry PvmNotFound
#define PvmDupEntry PvmDenied

#define PVMTMPNAMFUN(x) tmpnam(x)
#ifdef L_tmpnam
#define PVMTMPNAMLEN L_tmpnam
#else
#define PVMTMPNAMLEN 128
#endif

/* A host: pvm_config. */
struct pvmhostinfo {
    int hi_tid;
    char *hi_name;
    char *hi_arch;
    int hi_speed;
    int hi_dsig; /* data formats */
};

/* A task: pvm_tasks. */
struct pvmtaskinfo {
    int ti_tid;
    int ti_ptid; /* parent, 0: none */
    int ti_host;
    int ti_flag;
    char *ti_a_out; /* program */
    int ti_pid;
};

/* What stands beside a message: pvm_getminfo, pvm_setminfo. */
struct pvmminfo {
    int len;
    int ctx;
    int tag;
    int wid;
    int enc;
    int crc;
    int src;
    int dst;
};

/* A mailbox: pvm_getmboxinfo. */
struct pvmmboxinfo {
    char *mi_name;
    int mi_nentries;
    int *mi_indices;
    int *mi_owners; /* 0: gone */
    int *mi_flags;
};

#ifdef __cplusplus
extern "C" {
#endif

/* This task. */
int pvm_mytid(void);
int pvm_parent(void);
int pvm_siblings(int **tids);
int pvm_exit(void);
int pvm_setopt(int what, int value);
int pvm_getopt(int what);
int pvm_perror(char *message);
char *pvm_strerror(void);
char *pvm_version(void);
int pvm_getfds(int **descriptors);

/* Tasks. */
int pvm_spawn(char *program, char **argv, int flags, char *where, int count, int *tids);
int pvm_kill(int tid);
int pvm_sendsig(int tid, int signal);
int pvm_pstat(int tid);
int pvm_tasks(int which, int *count, struct pvmtaskinfo **tasks);
int pvm_export(char *variable);
int pvm_unexport(char *variable);
int pvm_notify(int what, int tag, int count, int *tids);
#if defined(EOF)
int pvm_catchout(FILE *file);
#endif

/* Hosts. */
int pvm_config(int *hosts, int *formats, struct pvmhostinfo **list);
int pvm_addhosts(char **names, int count, int *results);
int pvm_delhosts(char **names, int count, int *results);
int pvm_mstat(char *name);
int pvm_archcode(char *arch);
int pvm_tidtohost(int tid);
int pvm_hostsync(int host, struct timeval *clock, struct timeval *ahead);
int pvm_halt(void);
int pvm_start_pvmd(int argc, char **argv, int block);
int pvm_tickle(int count, int *numbers, int *answered, int *answers);

/* Buffers. */
int pvm_initsend(int encoding);
int pvm_mkbuf(int encoding);
int pvm_freebuf(int buffer);
int pvm_setsbuf(int buffer);
int pvm_setrbuf(int buffer);
int pvm_getsbuf(void);
int pvm_getrbuf(void);
int pvm_bufinfo(int buffer, int *len, int *tag, int *tid);
int pvm_getminfo(int buffer, struct pvmminfo *info);
int pvm_setminfo(int buffer, struct pvmminfo *info);

/* Into the send buffer, out of the receive buffer. */
int pvm_pkbyte(char *from, int count, int stride);
int pvm_upkbyte(char *to, int count, int stride);
int pvm_pkcplx(float *from, int count, int stride);
int pvm_upkcplx(float *to, int count, int stride);
int pvm_pkdcplx(double *from, int count, int stride);
int pvm_upkdcplx(double *to, int count, int stride);
int pvm_pkdouble(double *from, int count, int stride);
int pvm_upkdouble(double *to, int count, int stride);
int pvm_pkfloat(float *from, int count, int stride);
int pvm_upkfloat(float *to, int count, int stride);
int pvm_pkint(int *from, int count, int stride);
int pvm_upkint(int *to, int count, int stride);
int pvm_pkuint(unsigned int *from, int count, int stride);
int pvm_upkuint(unsigned int *to, int count, int stride);
int pvm_pklong(long *from, int count, int stride);
int pvm_upklong(long *to, int count, int stride);
int pvm_pkulong(unsigned long *from, int count, int stride);
int pvm_upkulong(unsigned long *to, int count, int stride);
int pvm_pkshort(short *from, int count, int stride);
int pvm_upkshort(short *to, int count, int stride);
int pvm_pkushort(unsigned short *from, int count, int stride);
int pvm_upkushort(unsigned short *to, int count, int stride);
int pvm_pkstr(char *string);
int pvm_upkstr(char *string);
int pvm_packf(const char *format, ...);
int pvm_unpackf(const char *format, ...);
int pvm_pkmesg(int buffer);
int pvm_pkmesgbody(int buffer);
int pvm_upkmesg(void);

/* Messages. */
int pvm_send(int tid, int tag);
int pvm_mcast(int *tids, int count, int tag);
int pvm_psend(int tid, int tag, void *from, int count, int type);
int pvm_recv(int tid, int tag);
int pvm_nrecv(int tid, int tag);
int pvm_trecv(int tid, int tag, struct timeval *time);
int pvm_precv(int tid, int tag, void *to, int count, int type, int *from, int *with, int *len);
int pvm_probe(int tid, int tag);
int (*pvm_recvf(int (*match)(int buffer, int tid, int tag)))(int, int, int);
int pvm_addmhf(int tid, int tag, int context, int (*handler)(int buffer));
int pvm_delmhf(int handler);
int pvm_newcontext(void);
int pvm_freecontext(int context);
int pvm_setcontext(int context);
int pvm_getcontext(void);

/* Mailboxes. */
int pvm_putinfo(char *name, int buffer, int flags);
int pvm_recvinfo(char *name, int index, int flags);
int pvm_delinfo(char *name, int index, int flags);
int pvm_getmboxinfo(char *pattern, int *count, struct pvmmboxinfo **boxes);
int pvm_insert(char *name, int index, int data);
int pvm_lookup(char *name, int index, int *data);
int pvm_delete(char *name, int index);

/* Groups. */
int pvm_joingroup(char *group);
int pvm_lvgroup(char *group);
int pvm_getinst(char *group, int tid);
int pvm_gettid(char *group, int instance);
int pvm_gsize(char *group);
int pvm_barrier(char *group, int count);
int pvm_bcast(char *group, int tag);
int pvm_freezegroup(char *group, int size);
int pvm_gather(void *result, void *data, int count, int type, int tag, char *group, int root);
int pvm_scatter(void *result, void *data, int count, int type, int tag, char *group, int root);
int pvm_reduce(void (*combine)(int *type, void *data, void *more, int *count, int *info),
               void *data, int count, int type, int tag, char *group, int root);
void PvmMax(int *type, void *data, void *more, int *count, int *info);
void PvmMin(int *type, void *data, void *more, int *count, int *info);
void PvmSum(int *type, void *data, void *more, int *count, int *info);
void PvmProduct(int *type, void *data, void *more, int *count, int *info);

/* Tasks that do a part of the system's work. */
int pvm_reg_rm(struct pvmhostinfo **host);
int pvm_reg_hoster(void);
int pvm_reg_tasker(void);
int pvm_reg_tracer(int trace_context, int trace_tag, int output_context, int output_tag,
                   char *mask, int buffer, int options);
int pvm_getnoresets(int **tids, int *count);

/* Of PVM's own, used by its programs. */
char *pvmgetrsh(void);
char *pvmgettmp(void);

#ifdef __cplusplus
}
#endif

#endif
