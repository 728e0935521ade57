//! What a daemon says of itself and of others in its log, at length.

use std::net::SocketAddr;

use towpath_wire::HostId;

/// Who said something that was not understood.
pub(super) fn said_by(host: Option<HostId>) -> String {
    host.map_or_else(|| "the leader that is joined".into(), |host| format!("host {host}"))
}

/// What a host says that leads again with what it kept.
pub(super) const BEGINS: &str =
    "those that voted have started again, and none has more than this host: it leads";

/// What a host says that kept the log, and starts again where others may lead.
pub(super) fn returning(hosts: usize) -> String {
    format!("others may lead by now: asking {hosts} hosts to take this one in")
}

/// What is wrong while the leader does not take this host back, and what to do.
pub(super) fn refuses(leader: HostId, why: &str) -> String {
    format!(
        "the leader {leader} does not take this host back ({why}): its tasks go on, and it goes on \
         trying\nhint: where the founder has lost its table of hosts, put back a copy of it there; \
         else end this host with `towpath down` and join again"
    )
}

/// What is wrong where two daemons have one key.
pub(super) fn copied(host: HostId) -> String {
    format!(
        "host {host} has closed connections of this host again and again, since newer ones with \
         its key took their place: another daemon runs with this host's key\nhint: end the one \
         that runs from a copy of this host's directory (`towpath down` there), remove the copy, \
         and let that machine join with a token of its own"
    )
}

/// The same, where the other one was not let in.
pub(super) fn twice(host: HostId, remote: SocketAddr) -> String {
    format!(
        "host {host} is there, and another daemon with its key asks to be let in from {remote}: it \
         is not\nhint: where a daemon runs there, from a copy of the host's directory, remove the \
         copy, and let that machine join with a token of its own; else somebody sends again what \
         was recorded of that host, which does no harm"
    )
}

/// What whoever leads says where a host is deleted that kept the log.
pub(super) fn revoked(host: HostId, tokens: usize) -> String {
    format!(
        "host {host} was deleted, and kept the log once: it may know {tokens} tokens, which are \
         revoked\nhint: `towpath token` issues another one"
    )
}
