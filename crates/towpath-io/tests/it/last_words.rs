//! What a process sends on a stream before it exits.

use std::process::{Command, Stdio};

use towpath_io::direct::{End, Rendezvous};
use towpath_wire::Instant;

use crate::side::{Side, next, offers, task};

#[test]
fn what_a_process_sent_before_it_exited_arrives_whole() {
    let [_, theirs] = offers(true);
    let mut b = Rendezvous::new().unwrap();
    let port = b.listen(theirs, Instant::ZERO).unwrap();
    let examples = ["-p", "towpath-io", "--example", "shared-roles"];
    let mut child = Command::new(crate::built::built(&["examples/shared-roles"], &examples))
        .args(["last-words", &port.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = next(&mut b, Instant::ZERO).unwrap();
    let mut side = Side::new(task(2), task(1), &[200_000]);
    // This side also writes, more than the child ever reads.
    side.send(&mut stream);
    while stream.ended().is_none() {
        stream.woken();
        side.receive(&mut stream);
        stream.flush();
    }
    assert_eq!(side.expected, (1, 0), "the stream ended with {:?}", stream.ended());
    assert!(child.wait().unwrap().success());
    assert!(matches!(stream.ended(), Some(End::Left | End::Reset(_))));
}
