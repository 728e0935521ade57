/* Towpath: trace masks and trace data of PVM 3.4.6, as far as programs use them. */
#ifndef TOWPATH_PVMTEV_H
#define TOWPATH_PVMTEV_H
#define _PVMTEV_H_

#include <sys/time.h>

/* Where trace messages are sent: pvm_send(PVM_TRACE_TID, PVM_TRACE_CODE). */
#define PVM_TRACE_TID (-1111)
#define PVM_TRACE_CODE (-2222)

#define TEV_MASK_LENGTH 36
typedef char Pvmtmask[TEV_MASK_LENGTH];

#define TEV_MASK_SET(mask, event) ((mask)[(event) / 4] |= 1 << ((event) & 3))
#define TEV_MASK_UNSET(mask, event) ((mask)[(event) / 4] &= ~(1 << ((event) & 3)))
#define TEV_MASK_CHECK(mask, event) ((mask)[(event) / 4] & (1 << ((event) & 3)))
#define TEV_MASK_INIT(mask) \
    { \
        int tev_at = TEV_MASK_LENGTH - 1; \
        (mask)[tev_at] = 0; \
        while (tev_at-- > 0) \
            (mask)[tev_at] = '@'; \
    }

#define TEV_USER_DEFINED 108
#define TEV_MAX 108
#define TEV_DID_MAX 122

struct Pvmtevdid {
    char *did;
    char *desc;
};

struct Pvmtevinfo {
    char *name;
    int desc_status;
    struct timeval mark;
    struct timeval total;
    int count;
};

struct Pvmtracer {
    int trctid;
    int trcctx;
    int trctag;
    int outtid;
    int outctx;
    int outtag;
    int trcbuf;
    int trcopt;
    Pvmtmask tmask;
};

#ifdef __cplusplus
extern "C" {
#endif
int pvm_gettmask(int who, Pvmtmask mask);
int pvm_settmask(int who, Pvmtmask mask);
#ifdef __cplusplus
}
#endif

#endif
