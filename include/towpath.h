/* towpath.h - tasks, messages and groups of a Towpath virtual machine, from C and C++.
 *
 *   make install PREFIX=$HOME/.local                                  once
 *   export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig
 *   cc program.c $(pkg-config --cflags --libs towpath) -o program
 *
 * A program becomes a task with towpath_enrol and ends being one with towpath_leave. Everything
 * happens inside the calls: there is no thread, no signal handler and no global state.
 *
 * Results    Functions that can fail return a code: TOWPATH_OK, TOWPATH_NONE where there was
 *            nothing in time, else a negative error. towpath_strerror gives a code's text,
 *            towpath_error the reason in words of the last call that failed on a task.
 * Memory     What a function fills is the caller's. What it returns in a handle (towpath_message
 *            and so on) is freed by the function named there, once; freeing NULL does nothing.
 *            Memory given to a send may be reused as soon as the call returns.
 * Threads    A task's handle may go from thread to thread, but two calls on it at once are an
 *            error (TOWPATH_E_BUSY), also a call from inside a function that it was given. A
 *            message may be read by several threads, as long as its task has not left (a long
 *            one stands in its sender's memory); it may be freed afterwards.
 * fork       A child's calls on the handle fail with TOWPATH_E_FORKED; it may enrol anew.
 * Pointers   A null pointer is an error (TOWPATH_E_ARGUMENT), unless it says "may be NULL".
 * Ids        A task's id names one life of one task, and no other until 262 143 more have been on
 *            its host; 0 is nobody.
 * Time-outs  In nanoseconds. 0: do not wait. TOWPATH_FOREVER: wait as long as it takes.
 */
#ifndef TOWPATH_H
#define TOWPATH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results --------------------------------------------------------------------------- */

enum towpath_code {
    TOWPATH_OK = 0, /* done */
    TOWPATH_NONE = 1, /* nothing there in time */
    TOWPATH_E_ARGUMENT = -1, /* an argument is null or makes no sense */
    TOWPATH_E_NO_DAEMON = -2, /* no daemon answers on this machine */
    TOWPATH_E_REFUSED = -3, /* the daemon refused */
    TOWPATH_E_SYSTEM = -4, /* the operating system refused something */
    TOWPATH_E_LOST = -5, /* the daemon is gone */
    TOWPATH_E_FORKED = -6, /* this process was forked from the task: enrol anew */
    TOWPATH_E_NO_TASK = -7, /* no such task, or it has ended */
    TOWPATH_E_FULL = -8, /* too many messages wait to be received */
    TOWPATH_E_TOO_LONG = -9, /* longer than the room, or than it may be */
    TOWPATH_E_UNDELIVERED = -10, /* what was sent before could not be delivered */
    TOWPATH_E_BUSY = -11, /* the handle is in use by another call */
    TOWPATH_E_NO_HOST = -12, /* no such host, or none that fits */
    TOWPATH_E_NOT_JOINED = -13, /* this host is not part of a virtual machine */
    TOWPATH_E_NOT_STARTED = -14, /* the program could not be started */
    TOWPATH_E_HOST_LOST = -15, /* the host was lost before it answered */
    TOWPATH_E_FROZEN = -16, /* the leader is lost: nothing changes until it is back */
    TOWPATH_E_NO_GROUP = -17, /* no such group */
    TOWPATH_E_IN_GROUP = -18, /* already in the group */
    TOWPATH_E_NOT_IN_GROUP = -19, /* not in the group */
    TOWPATH_E_GROUP_FROZEN = -20, /* the group is frozen */
    TOWPATH_E_NOT_FOUND = -21, /* no such entry */
    TOWPATH_E_EXISTS = -22, /* an entry is there that may not be overwritten */
    TOWPATH_E_DENIED = -23, /* it belongs to somebody else */
    TOWPATH_E_LIMIT = -24, /* a limit was reached */
    TOWPATH_E_UNEXPECTED = -25, /* the daemon answered otherwise than was asked */
    TOWPATH_E_BROKEN = -26, /* a member ended while others waited */
    TOWPATH_E_MISMATCH = -27, /* the members do not agree on what they do together */
    TOWPATH_E_PANIC = -28, /* a fault of the library itself: the handle is no longer usable */
    TOWPATH_E_CLOSED = -29, /* the channel is over */
    TOWPATH_E_TOO_LATE = -30, /* its time was over before it could be sent */
    TOWPATH_E_TYPE = -31, /* the message holds something else than was asked for */
};

/* A code's text; never NULL, never freed. */
const char *towpath_strerror(int code);

/* Version of the library, such as "0.1.0"; and of what this header declares: programs built for
 * one number work with every library that gives the same. */
const char *towpath_version(void);
uint32_t towpath_abi(void);
#define TOWPATH_ABI 0

/* ---- Being a task ---------------------------------------------------------------------- */

typedef struct towpath_task towpath_task;
typedef uint64_t towpath_id;   /* a task */
typedef uint64_t towpath_host; /* a host */

#define TOWPATH_FOREVER INT64_C(-1)

/* Becomes a task: the one that a daemon started this process as, else a new one of the virtual
 * machine TOWPATH_VM on this machine. `why` (may be NULL) has room for `room` bytes and is told
 * in words what went wrong. */
int towpath_enrol(towpath_task **task, char *why, size_t room);

/* The same at a given daemon, by the path of its socket for tasks. `claimed` and `cookie`: from
 * TOWPATH_TASK and TOWPATH_COOKIE (decimal); 0, or what does not hold: a new task. */
int towpath_enrol_at(const char *socket, towpath_id claimed, uint64_t cookie,
                     towpath_task **task, char *why, size_t room);

/* Ends being a task; what was sent before is delivered. The handle is gone, also after an error;
 * NULL does nothing. */
int towpath_leave(towpath_task *task);

/* Why the last call that failed on this task did, in words. Valid until the next one fails. */
const char *towpath_error(const towpath_task *task);

/* Who one is, who spawned one (0: nobody), on which host a task runs. */
towpath_id towpath_self(const towpath_task *task);
towpath_id towpath_parent(const towpath_task *task);
towpath_host towpath_host_of(towpath_id task);

/* The context that one's spawner chose. */
uint32_t towpath_context(const towpath_task *task);

/* All that were spawned with one, oneself included. Writes at most `room` ids, and to `count`
 * (may be NULL) how many there are. */
int towpath_siblings(const towpath_task *task, towpath_id *ids, size_t room, size_t *count);

/* One's place among the tasks of `towpath run -n`, and their number; TOWPATH_NONE elsewhere. The
 * name of that run, which no other has, stands in the environment: getenv("TOWPATH_JOB"). */
int towpath_rank(uint32_t *rank);
int towpath_size(uint32_t *size);

/* What this task did so far: sent_by_ring, sent_by_stream, sent_by_daemon, sent_to_self, multicasts,
 * received_by_ring, sleeps, unreceived_bytes. TOWPATH_E_NOT_FOUND: towpath_error lists all names. */
int towpath_counter(towpath_task *task, const char *name, uint64_t *value);

/* ---- Sending --------------------------------------------------------------------------- */

/* What is written on a message beside its receiver. */
typedef struct towpath_envelope {
    int64_t tag;      /* what receivers select by; all 64 bits are yours */
    uint32_t context; /* separates what must not meet; below 0x80000000 */
    uint32_t format;  /* how to read the bytes; means nothing to the library */
} towpath_envelope;

/* A piece of a message. */
typedef struct towpath_part {
    const void *bytes;
    size_t len;
} towpath_part;

/* Sends `len` bytes, in context 0. Returns when they may be reused; waits while the receiver
 * does not take more, and takes in what comes meanwhile. TOWPATH_E_NO_TASK once it has ended. */
int towpath_send(towpath_task *task, towpath_id to, int64_t tag, const void *bytes, size_t len);

/* Sends pieces of memory as one message. `envelope` may be NULL: all zero. */
int towpath_send_parts(towpath_task *task, towpath_id to, const towpath_envelope *envelope,
                       const towpath_part *parts, size_t count);

/* The same to several tasks; each host gets it once. Those that have ended are left out. */
int towpath_multicast(towpath_task *task, const towpath_id *to, size_t to_count,
                      const towpath_envelope *envelope, const towpath_part *parts, size_t count);

/* Memory for a message of `len` bytes, to be filled by towpath_loan_bytes and sent by
 * towpath_send_loan: without another copy where sender and receiver share memory. The loan is gone
 * when it was sent, also after an error. */
typedef struct towpath_loan towpath_loan;
int towpath_loan_new(towpath_task *task, size_t len, towpath_loan **loan);
void *towpath_loan_bytes(towpath_loan *loan);
size_t towpath_loan_len(const towpath_loan *loan);
int towpath_send_loan(towpath_task *task, towpath_id to, const towpath_envelope *envelope,
                      towpath_loan *loan);
void towpath_loan_free(towpath_loan *loan);

/* Which way the next message to a task goes; and whether the task takes other ways than the
 * daemons (it does unless told otherwise). */
enum towpath_way {
    TOWPATH_TO_ITSELF = 0,
    TOWPATH_BY_DAEMON = 1,
    TOWPATH_BY_RING = 2,   /* shared memory */
    TOWPATH_BY_STREAM = 3, /* a stream to the other host */
};
int towpath_route(towpath_task *task, towpath_id to);
int towpath_allow_direct(towpath_task *task, int on);

/* ---- Receiving ------------------------------------------------------------------------- */

/* Which message. NULL instead of one: any of context 0. */
typedef struct towpath_wanted {
    towpath_id source; /* 0: anyone */
    int64_t tag;
    uint32_t any_tag; /* not 0: `tag` does not matter */
    uint32_t context;
} towpath_wanted;

/* What is known of a message beside its bytes. */
typedef struct towpath_received {
    towpath_id source;
    int64_t tag;
    uint32_t context;
    uint32_t format;
    size_t len;
} towpath_received;

typedef struct towpath_message towpath_message;

/* Receives the earliest message that fits; TOWPATH_NONE when none came within `timeout`. */
int towpath_recv(towpath_task *task, const towpath_wanted *wanted, int64_t timeout,
                 towpath_message **message);

/* Receives the earliest message that fits into `bytes`; TOWPATH_NONE when none came within
 * `timeout` (what `bytes` holds then is not said). One that is longer stays where it is:
 * TOWPATH_E_TOO_LONG, and `about` (may be NULL) says how long it is. */
int towpath_recv_into(towpath_task *task, const towpath_wanted *wanted, void *bytes, size_t room,
                      int64_t timeout, towpath_received *about);

/* The earliest message that fits, without waiting; it stays. `about` may be NULL. */
int towpath_probe(towpath_task *task, const towpath_wanted *wanted, towpath_received *about);

/* Receives the message that `choose` chooses among all that wait, of every context, in the order
 * in which they came. It answers TOWPATH_SKIP, TOWPATH_TAKE (the search ends), or a rank from 0
 * to 2^32 - 1: then the first of the highest rank is taken. Asked again whenever something came.
 * It must return (no longjmp, no exception) and must not use the task. */
typedef int64_t (*towpath_choose)(void *data, const towpath_received *about, const void *bytes);
#define TOWPATH_SKIP INT64_C(-1)
#define TOWPATH_TAKE INT64_MAX
int towpath_recv_by(towpath_task *task, int64_t timeout, towpath_choose choose, void *data,
                    towpath_message **message);

/* A received message: what is known of it, its bytes where they are, and its end. */
void towpath_message_about(const towpath_message *message, towpath_received *about);
const void *towpath_message_bytes(const towpath_message *message);
size_t towpath_message_len(const towpath_message *message);
void towpath_message_free(towpath_message *message);

/* ---- Values, and messages without waiting ------------------------------------------------ */

enum towpath_element {
    TOWPATH_I8 = 1,
    TOWPATH_U8 = 2,
    TOWPATH_I16 = 3,
    TOWPATH_U16 = 4,
    TOWPATH_I32 = 5,
    TOWPATH_U32 = 6,
    TOWPATH_I64 = 7,
    TOWPATH_U64 = 8,
    TOWPATH_F32 = 9,
    TOWPATH_F64 = 10,
    TOWPATH_C32 = 11, /* complex: real and imaginary part, float each */
    TOWPATH_C64 = 12, /* the same in double */
};

/* Sends `count` values of a type, aligned as C has them. The message says which type they are and in
 * which order this machine has their bytes. */
int towpath_send_values(towpath_task *task, towpath_id to, int64_t tag, uint32_t element,
                        const void *values, size_t count);

/* Receives at most `room` values into `values`, turned round where the sender's machine has them the
 * other way. A message that holds another type (TOWPATH_E_TYPE) or more values
 * (TOWPATH_E_TOO_LONG) stays where it is. `about` (may be NULL) says how many bytes came. */
int towpath_recv_values(towpath_task *task, const towpath_wanted *wanted, uint32_t element,
                        void *values, size_t room, int64_t timeout, towpath_received *about);

/* Sends if that needs no wait for the receiver, else TOWPATH_NONE: then nothing was sent. */
int towpath_try_send(towpath_task *task, towpath_id to, const towpath_envelope *envelope,
                     const void *bytes, size_t len);

/* Starts to send; the bytes may be reused at once. It goes on inside all calls with the task;
 * messages to one task leave in the order of the calls. At most 4096 may be started, with 64 MiB:
 * TOWPATH_E_LIMIT beyond that. */
typedef struct towpath_sending towpath_sending;
int towpath_start_send(towpath_task *task, towpath_id to, const towpath_envelope *envelope,
                       const void *bytes, size_t len, towpath_sending **sending);

/* Waits until it has left; TOWPATH_NONE: not within `timeout`. After any other answer the handle is
 * gone. */
int towpath_finish_send(towpath_task *task, towpath_sending **sending, int64_t timeout);

/* What a posted receive takes: of `source` (0: anyone), where the bits of the tag that are set in
 * `mask` are those of `bits` (bits that are to be ignored are those that are not set), and the same of
 * the context. All zero: any message. The highest bit of the context is always asked to be 0. */
typedef struct towpath_pattern {
    towpath_id source;
    uint64_t bits; /* of (uint64_t)tag */
    uint64_t mask;
    uint32_t context;
    uint32_t context_mask;
} towpath_pattern;

/* Posts a receive: the earliest message that fits goes to it, also one that waits already, and into
 * `room` inside any call with the task. Earlier ones go before later ones; other receives get what
 * none was posted for. `element`: the type that it must hold, or 0: any bytes. `room` has `len`
 * bytes and is the library's until the receive is over or was taken back, or the task has left. At
 * most 4096 may be posted: TOWPATH_E_LIMIT beyond that. */
typedef struct towpath_posted towpath_posted;
int towpath_post(towpath_task *task, const towpath_pattern *pattern, uint32_t element, void *room,
                 size_t len, towpath_posted **posted);

/* Waits until it is over; TOWPATH_NONE: not within `timeout`. After any other answer the handle is
 * gone and set to NULL. A message that did not fit is an error, and waits to be received by others.
 * `about` may be NULL. */
int towpath_finish_posted(towpath_task *task, towpath_posted **posted, int64_t timeout,
                          towpath_received *about);

/* Waits until one of them is over, and says which; the one that was over first. */
int towpath_wait_posted(towpath_task *task, const towpath_posted *const *posted, size_t count,
                        int64_t timeout, size_t *which);

/* Takes it back. TOWPATH_NONE: its message has come, and is in its room. The handle is gone. */
int towpath_cancel_posted(towpath_task *task, towpath_posted *posted, towpath_received *about);

/* ---- Channels --------------------------------------------------------------------------- */

/* A channel to another task, by its number at this one: with an order, a room and a place among
 * what a host sends that are its own, so that nothing on it waits for another channel or for
 * messages. Both tasks send and receive. It is over when either closes it or ends, and when the
 * connection between their hosts is lost; it does not come back by itself. */
typedef uint32_t towpath_channel;

enum towpath_class {
    TOWPATH_ORDERED = 0,   /* each message exactly once, in order */
    TOWPATH_UNORDERED = 1, /* each exactly once, in any order */
    TOWPATH_TIMELY = 2,    /* each at most once; repaired while that can be in time */
    TOWPATH_ONCE = 3,      /* each at most once; nothing is repaired */
};

/* Added to a class: what the opener sends is coded across the paths to the other host, so that of
 * `packets` (1 to 16) and `parities` (1 to 4) more, any `parities` may be lost with nothing to be
 * sent again; adaptive: no more of them than what was lost of late calls for. Not together with a
 * reservation. Without it: as that host's daemon does with all (`towpath up --coding`). */
#define TOWPATH_CODED(packets, parities) ((uint32_t)(packets) << 8 | (uint32_t)(parities) << 16)
#define TOWPATH_CODED_ADAPTIVE (UINT32_C(1) << 24)

/* Until when `reserve_within_ns` counts. */
enum towpath_until {
    TOWPATH_LEFT = 0,    /* until a message has left this host */
    TOWPATH_ARRIVED = 1, /* until it is in at the other host: every port on the way is asked, of the
                            topology that the virtual machine knows (`towpath network`) */
};

typedef struct towpath_channel_spec {
    uint32_t cls;      /* enum towpath_class, and TOWPATH_CODED, if so */
    uint32_t priority; /* 0 to 7: of what waits for one host, the higher goes first; messages: 4 */
    uint32_t window;   /* room of each direction in bytes, 4096 to 16777216; a message takes 64 more
                          than it has */
    uint32_t reserve_bytes; /* 0: nothing is reserved. Else, on the link by which this host reaches
                               the other, for messages of at most so many bytes, one every
                               `reserve_every_ns` and `reserve_burst` at once after a while without:
                               these leave this host within `reserve_within_ns`, whatever else it
                               sends. TOWPATH_E_LIMIT where that does not fit, or where the host has
                               no rate (`towpath up --link-rate`). What is beyond that waits. */
    int64_t deadline_ns; /* for how long a message is of use: for timely channels, where it must be
                            said; else TOWPATH_FOREVER */
    int64_t reserve_every_ns;
    int64_t reserve_within_ns;
    uint32_t reserve_burst;
    uint32_t reserve_until; /* enum towpath_until */
} towpath_channel_spec;

/* What a channel is that is asked for without a specification: ordered, priority 4, 64 KiB. */
void towpath_channel_usual(towpath_channel_spec *spec);

/* Opens a channel; waits until the other task has it, also for one that has yet to enrol;
 * TOWPATH_NONE when it did not within `timeout`. `spec` may be NULL:
 * the usual. Two tasks of one host that both send without receiving wait for ever. */
int towpath_open_channel(towpath_task *task, towpath_id to, const towpath_channel_spec *spec,
                         int64_t timeout, towpath_channel *channel);

/* The next channel that another task opened to this one; TOWPATH_NONE when there was none within
 * `timeout`. `from` and `spec` may be NULL. */
int towpath_accept_channel(towpath_task *task, int64_t timeout, towpath_channel *channel,
                           towpath_id *from, towpath_channel_spec *spec);

/* Sends; waits while there is no room. `within`: for how long from now the message is of use, on a
 * timely channel (without room in that time: TOWPATH_E_TOO_LATE); TOWPATH_FOREVER: as the channel
 * was asked for. */
int towpath_send_on(towpath_task *task, towpath_channel channel, const void *bytes, size_t len,
                    int64_t within);

/* Sends if there is room now, else TOWPATH_NONE. */
int towpath_try_send_on(towpath_task *task, towpath_channel channel, const void *bytes,
                        size_t len);

/* Receives the next message, of `len` (may be NULL) bytes; TOWPATH_NONE when none came within
 * `timeout`. One that is longer than `room` stays: TOWPATH_E_TOO_LONG, and `len` says how long it
 * is. TOWPATH_E_CLOSED comes after the last message. */
int towpath_recv_on(towpath_task *task, towpath_channel channel, void *bytes, size_t room,
                    int64_t timeout, size_t *len);

typedef struct towpath_channel_status {
    towpath_id peer;
    uint64_t sent; /* messages acknowledged, and their bytes */
    uint64_t bytes_sent;
    uint64_t abandoned; /* given up: out of date, or lost where nothing is repaired */
    uint64_t late;      /* acknowledged, and late by an estimate */
    uint64_t repaired;  /* pieces sent again */
    uint64_t received;
    uint64_t bytes_received;
    uint64_t waiting; /* bytes of room in use by what this task sent */
    int64_t rtt_ns;   /* round trip to the other host; TOWPATH_FOREVER: none, it is this one */
    int64_t promised_ns; /* within so long it arrives, as was promised of the whole way */
    int64_t took_p50_ns; /* how long messages took, by an estimate: half of them at most so long, */
    int64_t took_p99_ns; /* 99 of 100, and the slowest; TOWPATH_FOREVER: none has arrived */
    int64_t took_most_ns;
} towpath_channel_status;
int towpath_channel_look(towpath_task *task, towpath_channel channel,
                         towpath_channel_status *status);

/* Ends a channel. What was sent on it is delivered. */
int towpath_close_channel(towpath_task *task, towpath_channel channel);

/* ---- Waiting ---------------------------------------------------------------------------- */

/* Takes in what is there. TOWPATH_OK: something new came, a message or an event. */
int towpath_poll(towpath_task *task);

/* Waits until something new comes. */
int towpath_wait(towpath_task *task, int64_t timeout);

/* For programs that wait with poll(2) or the like: call towpath_arm; TOWPATH_OK says go ahead
 * and wait for the descriptor to be readable, TOWPATH_NONE that something is there already. The
 * descriptor belongs to the library. Negative: an error. */
int towpath_arm(towpath_task *task);
int towpath_descriptor(const towpath_task *task);

/* ---- Events ------------------------------------------------------------------------------ */

enum towpath_event_kind {
    TOWPATH_TASK_ENDED = 1, /* task, ending, value: exit status or signal */
    TOWPATH_HOST_GONE = 2,  /* host, value: not 0 when it was lost rather than deleted */
    TOWPATH_HOST_ADDED = 3, /* host, bytes: its name */
    TOWPATH_OUTPUT = 4,     /* task, value: 1 or 2, bytes: what it wrote; none, once: no more */
    TOWPATH_END = 5,        /* the daemon ends, so should the task; bytes: why */
};

enum towpath_ending {
    TOWPATH_UNKNOWN = 0,
    TOWPATH_EXITED = 1,    /* value: its status */
    TOWPATH_SIGNALLED = 2, /* value: the signal */
    TOWPATH_TIMED_OUT = 3,
    TOWPATH_NOT_STARTED = 4,
    TOWPATH_HOST_LOST = 5,
};

typedef struct towpath_event {
    uint32_t kind;   /* enum towpath_event_kind */
    uint32_t ending; /* enum towpath_ending */
    uint64_t watch;  /* of which watch; 0 where none was needed */
    towpath_id task;
    towpath_host host;
    int32_t value;
    uint32_t reserved;
    const void *bytes; /* valid until the next towpath_next_event of this task */
    size_t len;
} towpath_event;

/* Has the task told of the end of a task (also of one that has ended already), of the loss or
 * departure of a host, of hosts that join. `watch` (may be NULL) gets the watch's number. */
int towpath_watch_task(towpath_task *task, towpath_id watched, uint64_t *watch);
int towpath_watch_host(towpath_task *task, towpath_host host, uint64_t *watch);
int towpath_watch_new_hosts(towpath_task *task, uint64_t *watch);
int towpath_unwatch(towpath_task *task, uint64_t watch);

/* Whether output of tasks spawned from now on comes as TOWPATH_OUTPUT events. */
int towpath_catch_output(towpath_task *task, int on);

/* What happened next; does not wait (towpath_wait does). Events come in order with messages: the
 * end of a task after its last message. */
int towpath_next_event(towpath_task *task, towpath_event *event);

/* An ending in words. */
const char *towpath_ending_text(uint32_t ending);

/* ---- The virtual machine ----------------------------------------------------------------- */

enum towpath_place {
    TOWPATH_ANYWHERE = 0,  /* where the load is least */
    TOWPATH_ON_HOST = 1,   /* on `host` */
    TOWPATH_ON_NAME = 2,   /* on the host called `name` */
    TOWPATH_ON_ARCH = 3,   /* on hosts of architecture `name`, such as "x86_64-linux" */
    TOWPATH_NOT_HOST = 4,  /* anywhere but on `host` */
};

/* Tasks to start. Set it to all zeros first: fields may be added at the end. */
typedef struct towpath_spawn {
    const char *program;     /* a path, or a name looked up on the host */
    const char *const *args; /* after the program's name, NULL at the end; may be NULL */
    const char *const *env;  /* "NAME=VALUE", added; NULL at the end; may be NULL */
    const char *cwd;         /* may be NULL: the daemon's */
    uint32_t place;          /* enum towpath_place */
    uint32_t orphan;         /* not 0: they are nobody's children */
    towpath_host host;
    const char *name;
    uint32_t count;   /* how many, 1 to 4096 */
    uint32_t context; /* that they begin with */
} towpath_spawn;

/* Starts tasks. `ids` and `codes` (either may be NULL) have room for `count` results: the task's
 * id, or 0 and why not. */
int towpath_spawn_tasks(towpath_task *task, const towpath_spawn *spawn, towpath_id *ids,
                        int *codes);

int towpath_signal(towpath_task *task, towpath_id to, int32_t signal);

typedef struct towpath_host_info {
    towpath_host id;
    uint32_t cpus;
    uint32_t slots; /* jobs that it runs at once */
    uint32_t up;    /* 0: it is lost */
    uint32_t reserved;
    char name[72];
    char arch[72]; /* what programs it can run, such as "x86_64-linux" */
    char address[64];
} towpath_host_info;

enum towpath_task_state {
    TOWPATH_ENROLLED = 1, /* it is part of the virtual machine now */
    TOWPATH_STARTED = 2,  /* its daemon started its process; else it enrolled by itself */
};

typedef struct towpath_task_info {
    towpath_id id;
    uint64_t age_us;
    towpath_id parent; /* the task that spawned it; 0: none did */
    uint32_t pid;      /* 0: not running yet */
    uint32_t state;    /* enum towpath_task_state, added */
    char command[208]; /* cut where it is longer */
} towpath_task_info;

/* Hosts; tasks of a host (0: of all). Writes at most `room`, and to `count` (may be NULL) how
 * many there are. */
int towpath_hosts(towpath_task *task, towpath_host_info *out, size_t room, size_t *count);
int towpath_tasks(towpath_task *task, towpath_host host, towpath_task_info *out, size_t room,
                  size_t *count);

/* One task that runs; TOWPATH_E_NO_TASK when it does not. `out` may be NULL. */
int towpath_task_lookup(towpath_task *task, towpath_id which, towpath_task_info *out);

/* Deletes hosts; `codes` (may be NULL) gets a result for each. */
int towpath_delete_hosts(towpath_task *task, const towpath_host *hosts, size_t count,
                         int *codes);

/* A host's wall clock, in microseconds since 1970. */
int towpath_clock(towpath_task *task, towpath_host host, uint64_t *us);

/* Ends the whole virtual machine, this task included. */
int towpath_halt(towpath_task *task);

/* ---- Groups and mailboxes ---------------------------------------------------------------- */

/* Joins a group, made by its first member. `instance` (may be NULL): the lowest free number. */
int towpath_join_group(towpath_task *task, const char *group, uint32_t *instance);
int towpath_leave_group(towpath_task *task, const char *group);

/* Members by instance number, 0 for a hole; as towpath_siblings. */
int towpath_group_members(towpath_task *task, const char *group, towpath_id *ids, size_t room,
                          size_t *count);

/* A group as it is now. The list of a frozen one no longer changes, though members leave; its context
 * belongs to this list alone. */
typedef struct towpath_group_state {
    uint64_t version; /* how often it has changed since it was made */
    size_t count;     /* members, holes included */
    uint32_t context; /* 0: it is not frozen */
    uint32_t reserved;
} towpath_group_state;
int towpath_group_look(towpath_task *task, const char *group, towpath_group_state *state);

/* Waits until the group has `count` members and freezes it. `state` may be NULL. */
int towpath_freeze_group(towpath_task *task, const char *group, uint32_t count,
                         towpath_group_state *state);

/* All groups. Writes at most `room`, and to `count` (may be NULL) how many there are. */
typedef struct towpath_group_info {
    uint32_t size;
    uint32_t reserved;
    char name[264];
} towpath_group_info;
int towpath_groups(towpath_task *task, towpath_group_info *out, size_t room, size_t *count);

/* Waits until `count` members wait here; 0: as many as the group has. */
int towpath_group_barrier(towpath_task *task, const char *group, uint32_t count);

enum towpath_mail_rule {
    TOWPATH_PERSISTENT = 1,   /* it outlives its owner */
    TOWPATH_MANY = 2,         /* the mailbox may have several entries */
    TOWPATH_OVERWRITABLE = 4, /* others may overwrite and delete it */
};

enum towpath_mail_how {
    TOWPATH_MAIL_TAKE = 1, /* take it out */
    TOWPATH_MAIL_WAIT = 2, /* wait until there is one */
};

#define TOWPATH_ANY_INDEX UINT32_MAX

typedef struct towpath_mail towpath_mail;

typedef struct towpath_mail_entry {
    uint32_t index; /* its place in the mailbox */
    uint32_t rules;
    uint32_t format; /* as put */
    uint32_t reserved;
    towpath_id owner;  /* 0: it has ended */
    const void *bytes; /* valid until towpath_mail_free */
    size_t len;
} towpath_mail_entry;

/* What is put into a mailbox: at most 512 KiB. */
typedef struct towpath_letter {
    const void *bytes;
    size_t len;
    uint32_t rules;  /* enum towpath_mail_rule, added */
    uint32_t format; /* how to read the bytes; means nothing to the library */
} towpath_letter;

/* Puts something into a mailbox, at `index` or (TOWPATH_ANY_INDEX) the lowest free place, which
 * `placed` (may be NULL) gets. */
int towpath_mail_put(towpath_task *task, const char *name, uint32_t index,
                     const towpath_letter *letter, uint32_t *placed);

/* Reads an entry; TOWPATH_ANY_INDEX: the first there is from place `from` on. `how`: enum
 * towpath_mail_how, added. */
int towpath_mail_get(towpath_task *task, const char *name, uint32_t index, uint32_t from,
                     uint32_t how, towpath_mail **mail);
void towpath_mail_look(const towpath_mail *mail, towpath_mail_entry *entry);
void towpath_mail_free(towpath_mail *mail);

int towpath_mail_delete(towpath_task *task, const char *name, uint32_t index);

/* Entries of mailboxes whose names match `pattern` (`*` stands for any text), without what is in
 * them. Writes at most `room`, and to `count` (may be NULL) how many there are. */
typedef struct towpath_mail_listed {
    uint32_t index;
    uint32_t rules;
    towpath_id owner; /* 0: it has ended */
    char name[264];   /* of the mailbox */
} towpath_mail_listed;
int towpath_mailboxes(towpath_task *task, const char *pattern, towpath_mail_listed *out,
                      size_t room, size_t *count);

/* ---- What tasks do together ---------------------------------------------------------------- */

/* A fixed list of tasks, as one of them sees it. All members call the same functions in the same
 * order, with the same lengths where the functions below have one. When a member ends, whoever needs
 * something of it gets TOWPATH_E_BROKEN instead of waiting, and the team is broken: all that is not
 * over, or begins later, fails for all members. A team is used with the task that made it, by one thread at a time. */
typedef struct towpath_team towpath_team;

/* Joins `group`, waits until it has `size` members, and makes a team of them. That freezes the
 * group for as long as one of them lives: whoever joins it again gets TOWPATH_E_IN_GROUP, others
 * and those who would leave it TOWPATH_E_GROUP_FROZEN. The next team needs another group. */
int towpath_team_of_group(towpath_task *task, const char *group, uint32_t size,
                          towpath_team **team);

/* Makes a team of these tasks; every member gives the same list. */
int towpath_team_of(towpath_task *task, const towpath_id *members, size_t count,
                    towpath_team **team);
void towpath_team_free(towpath_team *team);

/* Parts a team: members that give the same colour are a team, in the order of their keys, equal ones
 * as they were. All members call it; TOWPATH_NO_COLOUR gets TOWPATH_NONE and no team. */
#define TOWPATH_NO_COLOUR UINT32_MAX
int towpath_team_split(towpath_task *task, towpath_team *team, uint32_t colour, uint32_t key,
                       towpath_team **part);

uint32_t towpath_team_rank(const towpath_team *team);
uint32_t towpath_team_size(const towpath_team *team);
towpath_id towpath_team_member(const towpath_team *team, uint32_t rank);

enum towpath_function {
    TOWPATH_SUM = 1,
    TOWPATH_PRODUCT = 2,
    TOWPATH_MIN = 3,
    TOWPATH_MAX = 4,
    TOWPATH_BIT_AND = 5,
    TOWPATH_BIT_OR = 6,
    TOWPATH_BIT_XOR = 7,
    TOWPATH_LOGICAL_AND = 8,
    TOWPATH_LOGICAL_OR = 9,
    TOWPATH_LOGICAL_XOR = 10,
};

/* left := left combined with right, `len` bytes of whole elements, at any address. It must be
 * associative, must return, and must not use the task. */
typedef void (*towpath_combine)(void *data, void *left, const void *right, size_t len);

/* What vectors are combined by: `function` of `element`s, or, where `combine` is not NULL, that.
 * Set it to all zeros first. */
typedef struct towpath_operator {
    uint32_t function; /* enum towpath_function */
    uint32_t element;  /* enum towpath_element */
    towpath_combine combine;
    void *data;           /* for `combine` */
    size_t element_bytes; /* for `combine` */
    uint32_t commutes;    /* for `combine`; 0: it is applied in the order of ranks */
    uint32_t reserved;
} towpath_operator;

/* Waits until all members have come here. */
int towpath_barrier(towpath_task *task, towpath_team *team);

/* Gives everyone the root's `len` bytes. */
int towpath_broadcast(towpath_task *task, towpath_team *team, uint32_t root, void *bytes,
                      size_t len);

/* Combines all members' vectors of `len` bytes: for the root (`result` may be NULL elsewhere), for
 * everyone, of the ranks up to one's own, of those below one's own (TOWPATH_NONE at rank 0). */
int towpath_reduce(towpath_task *task, towpath_team *team, uint32_t root, const void *bytes,
                   void *result, size_t len, const towpath_operator *by);
int towpath_all_reduce(towpath_task *task, towpath_team *team, const void *bytes, void *result,
                       size_t len, const towpath_operator *by);
int towpath_scan(towpath_task *task, towpath_team *team, const void *bytes, void *result,
                 size_t len, const towpath_operator *by);
int towpath_exclusive_scan(towpath_task *task, towpath_team *team, const void *bytes,
                           void *result, size_t len, const towpath_operator *by);

/* Parts of `len` bytes, one for each rank, lie one behind the other in `all`: gathered at the root
 * (`all` may be NULL elsewhere), gathered at everyone, scattered from the root (`all` may be NULL
 * elsewhere), exchanged by each with each. */
int towpath_gather(towpath_task *task, towpath_team *team, uint32_t root, const void *bytes,
                   size_t len, void *all);
int towpath_all_gather(towpath_task *task, towpath_team *team, const void *bytes, size_t len,
                       void *all);
int towpath_scatter(towpath_task *task, towpath_team *team, uint32_t root, const void *all,
                    void *bytes, size_t len);
int towpath_all_to_all(towpath_task *task, towpath_team *team, const void *parts, void *all,
                       size_t len);

/* The same with parts of whatever length, one behind the other: `lens[k]` bytes go to rank k,
 * `rooms[k]` come from it, and no other number (TOWPATH_E_MISMATCH). */
int towpath_all_to_all_counts(towpath_task *task, towpath_team *team, const void *parts,
                              const size_t *lens, void *all, const size_t *rooms);

/* ---- The same, of any length, and without waiting ------------------------------------------ */

enum towpath_what {
    TOWPATH_OP_BARRIER = 1,
    TOWPATH_OP_BROADCAST = 2,
    TOWPATH_OP_REDUCE = 3,
    TOWPATH_OP_ALL_REDUCE = 4,
    TOWPATH_OP_GATHER = 5,
    TOWPATH_OP_ALL_GATHER = 6,
    TOWPATH_OP_SCATTER = 7,
    TOWPATH_OP_ALL_TO_ALL = 8,
    TOWPATH_OP_SCAN = 9,
    TOWPATH_OP_EXCLUSIVE_SCAN = 10,
};

/* An operation, with what this member gives to it. Set it to all zeros first. Only the root of a
 * broadcast or scatter gives something to it; a scatter's root and each member of an all-to-all
 * give a part for each rank, else it is one part. Nobody else knows lengths beforehand. */
typedef struct towpath_operation {
    uint32_t what; /* enum towpath_what */
    uint32_t root;
    const towpath_part *parts;
    size_t count;
    uint32_t any_lengths; /* gather, all_gather, all_to_all: 0: one length for all, or an error */
    uint32_t reserved;
    const towpath_operator *by; /* what vectors are combined by, else NULL */
} towpath_operation;

/* What a member gets: no part, one, or one for each rank. Used by one thread at a time. */
typedef struct towpath_output towpath_output;
size_t towpath_output_count(const towpath_output *output);

/* The bytes of a part, valid until towpath_output_free. */
int towpath_output_part(const towpath_output *output, size_t number, towpath_part *part);
void towpath_output_free(towpath_output *output);

/* Does an operation, as the function above of its kind does; members may use either. `output` may
 * be NULL. */
int towpath_perform(towpath_task *task, towpath_team *team, const towpath_operation *operation,
                    towpath_output **output);

/* Starts an operation, which goes on while the task does other things: it makes progress inside
 * all calls with its team, and towpath_wait ends when something came for it. What is given to it
 * may be reused when the call returns, but an operator's function and its data are used until the
 * operation is over. The others start the same operation too, or wait in it. At most 64 of a team
 * may be started and not finished, in whatever order; TOWPATH_E_LIMIT beyond that. */
typedef struct towpath_pending towpath_pending;
int towpath_start(towpath_task *task, towpath_team *team, const towpath_operation *operation,
                  towpath_pending **pending);

/* Whether it is over, with a result or an error: TOWPATH_NONE when not within `timeout`. */
int towpath_test(towpath_task *task, towpath_team *team, const towpath_pending *pending,
                 int64_t timeout);

/* Waits until it is over. `output` may be NULL. The handle is gone, also after an error. */
int towpath_finish(towpath_task *task, towpath_team *team, towpath_pending *pending,
                   towpath_output **output);

/* Does without the result: the operation itself goes on for the others, inside later calls with
 * its team. */
void towpath_pending_free(towpath_pending *pending);

/* ---- Panels: parameters and results while a computation goes on ------------------------------ */

/* A task shows a panel under a name that is known in the whole virtual machine; other tasks, and the
 * command `towpath panel`, see its parameters, give them other values, and follow its series. A panel
 * never waits for who follows: results for which there is no room are left out and counted. A panel
 * is used with the task that made it, by one thread at a time; so is a view. */
typedef struct towpath_panel towpath_panel;

enum towpath_shown_kind {
    TOWPATH_REAL = 1,
    TOWPATH_WHOLE = 2,  /* up to 2^53 either way */
    TOWPATH_SWITCH = 3, /* 0 or 1 */
    TOWPATH_CHOICE = 4, /* a number of `choices`, from 0 */
    TOWPATH_CURVES = 5, /* series only */
    TOWPATH_FIELD = 6
};

typedef struct towpath_parameter {
    const char *name;
    const char *unit;           /* may be NULL */
    const char *const *choices; /* for TOWPATH_CHOICE: up to a NULL pointer */
    double value;               /* to begin with; a choice begins with the first */
    double least;               /* both 0: any value */
    double most;
    uint32_t kind;
    uint32_t reserved;
} towpath_parameter;

typedef struct towpath_series {
    const char *name;
    const char *unit;          /* may be NULL */
    const char *over;          /* what the axis counts; NULL: step */
    const char *const *curves; /* names up to a NULL pointer; NULL: a field of rows x columns */
    uint32_t rows;
    uint32_t columns;
    uint32_t keep; /* the last so many points are kept for who follows later */
    uint32_t reserved;
} towpath_series;

int towpath_panel_new(towpath_task *task, const char *name, towpath_panel **panel);
/* Without towpath_panel_finish the name stays listed until the task ends, and answers nobody. */
void towpath_panel_free(towpath_panel *panel);

/* Adds one, before it is shown; its number may be NULL. At most 256 parameters and 64 series. */
int towpath_panel_parameter(towpath_task *task, towpath_panel *panel,
                            const towpath_parameter *about, uint32_t *number);
int towpath_panel_series(towpath_task *task, towpath_panel *panel, const towpath_series *about,
                         uint32_t *number);

/* From now on others find it; TOWPATH_E_EXISTS where there is one of this name. */
int towpath_panel_show(towpath_task *task, towpath_panel *panel);

/* Takes what others ask for and tells them what there is to tell; it does not wait. Changes come in
 * here and in towpath_panel_agree, nowhere else. How many, may be NULL. */
int towpath_panel_serve(towpath_task *task, towpath_panel *panel, uint32_t *changes);

/* Serves at the team's first member, and gives its values to all, who make the same panel and call
 * this at the same place. Whether any is new, may be NULL. */
int towpath_panel_agree(towpath_task *task, towpath_panel *panel, towpath_team *team,
                        int *changed);

int towpath_panel_value(towpath_task *task, towpath_panel *panel, uint32_t number, double *value);
int towpath_panel_set(towpath_task *task, towpath_panel *panel, uint32_t number, double value);

/* Adds a point: where it is on the axis, and as many values as the series has. */
int towpath_panel_push(towpath_task *task, towpath_panel *panel, uint32_t series, double at,
                       const double *values, size_t count);

/* Tells who follows that nothing more comes, and takes the name away. They get so long to take what
 * they were told; then the end alone. */
int towpath_panel_finish(towpath_task *task, towpath_panel *panel, int64_t patience);

/* Another task's panel. TOWPATH_E_NOT_FOUND: none is shown; TOWPATH_NONE: no answer in time. */
typedef struct towpath_view towpath_view;
int towpath_view_open(towpath_task *task, const char *name, int64_t timeout, towpath_view **view);

typedef struct towpath_shown {
    double value; /* of a parameter */
    double least; /* of a field: rows */
    double most;  /* of a field: columns */
    uint32_t kind;
    uint32_t count; /* choices, or values of a point */
    char name[72];
    char unit[72];
    char over[72];
} towpath_shown;

/* What there is, by number from 0; TOWPATH_NONE beyond the last. */
int towpath_view_parameter(towpath_task *task, towpath_view *view, uint32_t number,
                           towpath_shown *shown);
int towpath_view_series(towpath_task *task, towpath_view *view, uint32_t number,
                        towpath_shown *shown);

/* The name of a choice, or of a curve, of the parameter or series of this number. */
int towpath_view_name(towpath_task *task, towpath_view *view, const towpath_shown *shown,
                      uint32_t number, uint32_t which, char (*name)[72]);

/* Gives a parameter another value, and waits until its task has it. */
int towpath_view_set(towpath_task *task, towpath_view *view, const char *name, double value,
                     int64_t timeout);

enum towpath_told_kind { TOWPATH_CHANGED = 1, TOWPATH_POINT = 2, TOWPATH_OVER = 3 };

typedef struct towpath_told {
    uint32_t kind;
    uint32_t number;      /* of the parameter or series; of the end: 0 the panel has ended, 1 this task
                             took too little for too long, 2 it wanted so */
    double value;         /* of the parameter; of a point: where it is on the axis */
    const double *values; /* of a point: until the next call with this view */
    size_t count;
    uint64_t lost;  /* points of this series left out before this one */
    towpath_id by;  /* who wanted the change; 0: the program itself */
} towpath_told;

/* What there is to tell next: first what the series have kept. After TOWPATH_OVER nothing comes. */
int towpath_view_next(towpath_task *task, towpath_view *view, int64_t timeout, towpath_told *told);

/* Wants to be told no more, and frees the view. towpath_view_free frees it without a word: then the
 * panel tells this task on until it ends. */
int towpath_view_close(towpath_task *task, towpath_view *view);
void towpath_view_free(towpath_view *view);

#ifdef __cplusplus
}
#endif

#endif
