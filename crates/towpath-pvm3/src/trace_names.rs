//! Names of PVM's trace events and of the data in them, by their numbers: part of its interface,
//! for the programs that read traces.

use std::ffi::CStr;

/// Number of the event that programs define.
pub(crate) const USER_DEFINED: usize = 108;
/// How many events there are.
pub(crate) const EVENTS: usize = 109;
/// How many kinds of data there are.
pub(crate) const DATA: usize = 123;

/// Events, by number.
pub(crate) const EVENT: [&CStr; EVENTS] = [
    c"addhosts",
    c"barrier",
    c"bcast",
    c"bufinfo",
    c"config",
    c"delete",
    c"delhosts",
    c"exit",
    c"freebuf",
    c"getfds",
    c"getinst",
    c"getopt",
    c"getrbuf",
    c"getsbuf",
    c"gettid",
    c"gsize",
    c"halt",
    c"initsend",
    c"insert",
    c"joingroup",
    c"kill",
    c"lookup",
    c"lvgroup",
    c"mcast",
    c"mkbuf",
    c"mstat",
    c"mytid",
    c"notify",
    c"nrecv",
    c"parent",
    c"perror",
    c"pkbyte",
    c"pkcplx",
    c"pkdcplx",
    c"pkdouble",
    c"pkfloat",
    c"pkint",
    c"pkuint",
    c"pklong",
    c"pkulong",
    c"pkshort",
    c"pkushort",
    c"pkstr",
    c"probe",
    c"pstat",
    c"recv",
    c"recvf",
    c"send",
    c"sendsig",
    c"setopt",
    c"setrbuf",
    c"setsbuf",
    c"spawn",
    c"start_pvmd",
    c"tasks",
    c"tickle",
    c"tidtohost",
    c"trecv",
    c"upkbyte",
    c"upkcplx",
    c"upkdcplx",
    c"upkdouble",
    c"upkfloat",
    c"upkint",
    c"upkuint",
    c"upklong",
    c"upkulong",
    c"upkshort",
    c"upkushort",
    c"upkstr",
    c"version",
    c"reg_hoster",
    c"reg_rm",
    c"reg_tasker",
    c"reg_tracer",
    c"newtask",
    c"endtask",
    c"spntask",
    c"archcode",
    c"catchout",
    c"getmwid",
    c"gettmask",
    c"hostsync",
    c"packf",
    c"precv",
    c"psend",
    c"reduce",
    c"setmwid",
    c"settmask",
    c"unpackf",
    c"gather",
    c"scatter",
    c"putinfo",
    c"getinfo",
    c"delinfo",
    c"getmboxinfo",
    c"newcontext",
    c"freecontext",
    c"setcontext",
    c"getcontext",
    c"siblings",
    c"getminfo",
    c"setminfo",
    c"addmhf",
    c"delmhf",
    c"mhf_invoke",
    c"timing",
    c"profiling",
    c"user_defined",
];

/// Kinds of data, by number: the name, and what it is for people who read traces.
pub(crate) const DATUM: [(&CStr, &CStr); DATA] = [
    (c"AN", c"PVM Architecture Name"),
    (c"AC", c"PVM Architecture Code"),
    (c"AS", c"Argument Strings (Argc/Argv)"),
    (c"BF", c"Block Flag"),
    (c"CC", c"Condition Code"),
    (c"CN", c"Class Name"),
    (c"CI", c"Class Index"),
    (c"CF", c"Class Flags"),
    (c"CD", c"Class Data"),
    (c"CR", c"Returned Class Data"),
    (c"CL", c"Returned Class Names"),
    (c"CDA", c"Collective Data Address"),
    (c"CDT", c"Collective Data Type"),
    (c"CDX", c"Collective Data"),
    (c"CDC", c"Collective Count"),
    (c"CGI", c"Collective Group Result Instance"),
    (c"CRF", c"Collective Reduce Function"),
    (c"CXC", c"Current Message Context"),
    (c"CXF", c"Freed Message Context"),
    (c"CXN", c"New Message Context"),
    (c"CXS", c"Set Message Context"),
    (c"ERI", c"PVM Error Identifier"),
    (c"ERR", c"PVM Error String"),
    (c"FDS", c"File Descriptors"),
    (c"FP", c"File Pointer"),
    (c"GN", c"Group Name"),
    (c"GI", c"Group Instance Number"),
    (c"GT", c"Group Task ID"),
    (c"GS", c"Group Size"),
    (c"GBC", c"Group Barrier Count"),
    (c"HN", c"Host Name"),
    (c"HNL", c"Host Name List"),
    (c"HNA", c"Host Name Alias"),
    (c"HPT", c"Host PVMD Task ID"),
    (c"HA", c"Host Architecture"),
    (c"HSP", c"Host Speed"),
    (c"HIS", c"Host Information Structures"),
    (c"HCS", c"Host Clock Seconds"),
    (c"HCU", c"Host Clock Microseconds"),
    (c"HDS", c"Host Delta Seconds"),
    (c"HDU", c"Host Delta Microseconds"),
    (c"HS", c"Host Status"),
    (c"INB", c"Info Number of Message Bytes"),
    (c"IMC", c"Info Message Code"),
    (c"IST", c"Info Message Source Task"),
    (c"MC", c"Message Code"),
    (c"MCX", c"Message Context"),
    (c"MB", c"Message Buffer"),
    (c"MNB", c"Message Number of Bytes"),
    (c"SRC", c"Message Source Task ID"),
    (c"DST", c"Message Destination Task ID"),
    (c"MDL", c"Message Destination Task ID List"),
    (c"MTS", c"Message Timeout Seconds"),
    (c"MTU", c"Message Timeout Microseconds"),
    (c"MRF", c"Message Receive Function"),
    (c"MRB", c"Message Receive Buffer"),
    (c"MSB", c"Message Send Buffer"),
    (c"ME", c"Message Encoding"),
    (c"MHI", c"Message Handler Index"),
    (c"AST", c"Actual Message Sender Task ID"),
    (c"AMC", c"Actual Message Code"),
    (c"AML", c"Actual Message Length"),
    (c"NE", c"Notify Event ID"),
    (c"NMC", c"Notify Message Code"),
    (c"NCT", c"Notify Count"),
    (c"NTL", c"Notify Task ID List"),
    (c"NH", c"Number of Hosts"),
    (c"NA", c"Number of Architectures"),
    (c"OPT", c"PVM Option ID"),
    (c"OPV", c"PVM Option Value"),
    (c"OS", c"Output String"),
    (c"PDA", c"Pack Data Address"),
    (c"PDT", c"Pack Data Type"),
    (c"PC", c"Pack Count"),
    (c"PSD", c"Pack Stride"),
    (c"PSG", c"Pack String"),
    (c"PF", c"Pack Format"),
    (c"PRF", c"Profiling Count"),
    (c"RST", c"Receive Msg Source Task / Wildcard"),
    (c"RMC", c"Receive Msg Code / Wildcard"),
    (c"RCX", c"Receive Msg Context"),
    (c"SN", c"Signal Number"),
    (c"SE", c"Spawn Executable File"),
    (c"SF", c"Spawn Flags"),
    (c"SW", c"Spawn Where"),
    (c"SC", c"Spawn Count"),
    (c"STL", c"Spawned Task ID List"),
    (c"SIB", c"Sibling Task ID List"),
    (c"TID", c"Task ID"),
    (c"PT", c"Parent Task ID"),
    (c"MT", c"My Task ID"),
    (c"TF", c"Task Flags"),
    (c"TN", c"Task Name"),
    (c"PID", c"Task Process ID"),
    (c"TT", c"Target Task ID"),
    (c"TW", c"Tasks Where"),
    (c"TIS", c"Task Information Structures"),
    (c"TNT", c"Task Info - Number of Tasks"),
    (c"TST", c"Task Status"),
    (c"TUS", c"Task User Usage Seconds"),
    (c"TUU", c"Task User Usage Microseconds"),
    (c"TSS", c"Task System Usage Seconds"),
    (c"TSU", c"Task System Usage Microseconds"),
    (c"TES", c"Task Exit Status"),
    (c"TA", c"Tickle Arguments"),
    (c"TR", c"Tickle Responses"),
    (c"TS", c"Time Seconds"),
    (c"TU", c"Time Microseconds"),
    (c"TGS", c"Timing Seconds"),
    (c"TGU", c"Timing Microseconds"),
    (c"TMW", c"Trace Mask Who"),
    (c"TM", c"Trace Mask"),
    (c"TRC", c"Tracer Message Trace Context"),
    (c"TRT", c"Tracer Message Trace Tag"),
    (c"TRX", c"Tracer Message Output Context"),
    (c"TRO", c"Tracer Message Output Tag"),
    (c"TRM", c"Tracer Trace Mask"),
    (c"TRB", c"Tracer Trace Buffering"),
    (c"TRL", c"Tracer Trace Options"),
    (c"VER", c"PVM Version"),
    (c"VCT", c"Trace Event Count"),
    (c"VID", c"Trace Event ID"),
    (c"WID", c"Wait Identifier Number"),
];

/// Name of an event.
pub(crate) fn event_name(event: usize) -> &'static CStr {
    EVENT[event]
}

const fn is_equal(one: &CStr, other: &[u8]) -> bool {
    let one = one.to_bytes();
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Number of an event, for constants: a name that is none does not compile there.
pub(crate) const fn event(name: &str) -> usize {
    number_of(name.as_bytes())
}

/// Number of the event of a call, by the name that begins with `pvm_`; for constants.
pub(crate) const fn event_of(call: &str) -> usize {
    number_of(call.as_bytes().split_at(4).1)
}

const fn number_of(name: &[u8]) -> usize {
    let mut number = 0;
    while !is_equal(EVENT[number], name) {
        number += 1;
    }
    number
}

/// Number of a kind of data, for constants.
pub(crate) const fn datum(name: &str) -> i32 {
    let mut number = 0;
    while !is_equal(DATUM[number].0, name.as_bytes()) {
        number += 1;
    }
    number as i32
}

/// Number of a trace event by its name.
macro_rules! event_number {
    ($name:literal) => {
        const { $crate::trace_names::event($name) }
    };
}

/// What a trace event tells, by the names of kinds of data.
macro_rules! data {
    ($($kind:ident: $value:expr),*) => {
        vec![$((
            const { $crate::trace_names::datum(stringify!($kind)) },
            $crate::library::Value::from($value),
        )),*]
    };
}

pub(crate) use {data, event_number};
