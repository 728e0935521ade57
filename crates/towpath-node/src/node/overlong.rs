//! Messages that are longer than their host, or their task, takes: they are not kept in front of
//! others, and whoever waits for what comes of them hears of it.

use alloc::vec::Vec;

use towpath_vm::message::{Answered, AnsweredAll, Asked, Spawn, SpawnFor};
use towpath_vm::talk::{Fault, ToTask, encoded_len};
use towpath_vm::{Ending, Message, RequestId};
use towpath_wire::frame::MESSAGE_CHARGE;
use towpath_wire::talk::FRAME_BODY_MAX;
use towpath_wire::{HostId, Instant};

use super::Node;
use crate::lanes::Waiting;

impl Node {
    /// The longest message that goes to another host, in bytes.
    fn message_len_max(&self) -> u64 {
        (u64::from(self.config.proto.window) - MESSAGE_CHARGE).min(FRAME_BODY_MAX as u64)
    }

    /// A message as bytes; of an answer that is too long, that it is. `None`: it is too long.
    pub(crate) fn encode(&mut self, now: Instant, message: Message) -> Option<Vec<u8>> {
        let (room, limit) = (self.peers.buffers.take(), self.message_len_max());
        let bytes = message.encode_into(room);
        if bytes.len() as u64 <= limit {
            return Some(bytes);
        }
        self.peers.too_long += 1;
        let answer = Err(Fault::Limit { what: "bytes of an answer".into(), limit });
        match message {
            Message::Answered(asked) => {
                Some(Message::Answered(Answered { answer, more: false, ..asked }).encode())
            }
            Message::AnsweredAll(AnsweredAll { askers, .. }) => {
                let bytes = Message::AnsweredAll(AnsweredAll { askers, answer }).encode();
                (bytes.len() as u64 <= limit).then_some(bytes)
            }
            message => {
                self.not_sent(now, &message);
                None
            }
        }
    }

    /// What waited for a host is not sent: nobody waits for its arrival, or its answer, any more.
    pub(crate) fn drop_waiting(&mut self, now: Instant, host: HostId, dropped: Vec<Waiting>) {
        for waiting in dropped {
            match &waiting {
                Waiting::Bytes(bytes) => {
                    if let Ok(message) = Message::decode(bytes) {
                        self.not_sent(now, &message);
                    }
                }
                Waiting::Block(block, _) | Waiting::Of(_, block, _) => {
                    self.data.relays.sent(host, *block);
                    self.peers.freed.push(*block);
                }
            }
            if let Some(task) = waiting.of() {
                self.piece_arrived(now, host, task);
            }
        }
    }

    /// A message was too long for its host: whoever waits for what comes of it hears so.
    fn not_sent(&mut self, now: Instant, message: &Message) {
        let what = "bytes of a message to that host";
        let fault = Fault::Limit { what: what.into(), limit: self.message_len_max() };
        match message {
            Message::Spawn(Spawn { request, .. }) => {
                let ending = Ending::Refused(alloc::format!("{fault}"));
                let event = self.requests.fail(RequestId(*request), ending);
                self.report(now, *request, event);
            }
            Message::Asked(Asked { asker, number, .. })
            | Message::SpawnFor(SpawnFor { asker, number, .. }) => {
                self.answer(*asker, *number, Err(fault));
            }
            _ => {}
        }
    }

    /// What is to be said, if it fits into a frame; of an answer that does not, so much. Only what
    /// others said can be as long.
    pub(crate) fn in_a_frame(&mut self, say: ToTask) -> Option<ToTask> {
        let may_be_long = matches!(
            say,
            ToTask::Answer { answer: Ok(_), .. }
                | ToTask::Part { .. }
                | ToTask::Output { .. }
                | ToTask::Notice { .. }
                | ToTask::Welcome(_)
        );
        if !may_be_long || encoded_len(&say) <= FRAME_BODY_MAX {
            return Some(say);
        }
        self.peers.too_long += 1;
        match say {
            ToTask::Answer { number, .. } => {
                let (what, limit) = ("bytes of an answer".into(), FRAME_BODY_MAX as u64);
                Some(ToTask::Answer { number, answer: Err(Fault::Limit { what, limit }) })
            }
            _ => None,
        }
    }
}
