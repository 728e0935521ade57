//! Messages out.

use super::session::{Library, Session};
use crate::code::{Code, Outcome};
use crate::message::{Encoding, WAITS};
use crate::tid;
use crate::trace_names::USER_DEFINED;
use crate::vm::{Envelope, Vm};

/// Pretended receiver and tag of trace messages.
const TRACE: (i32, i32) = (-1111, -2222);

impl Library {
    /// `pvm_send`.
    pub(crate) fn send(&self, to: i32, tag: i32) -> Outcome {
        if super::system::is_system(tag)
            && self.with(|session| session.options.reserved)
            && let Some(sent) = self.send_of_system(to, tag)?
        {
            return Ok(sent);
        }
        self.enrolled(|session, vm| {
            if (to, tag) == TRACE {
                return session.send_trace(vm);
            }
            if !session.options.reserved && (!tid::is_task(to) || tag < 0) {
                return Err(Code::BadParam);
            }
            session.send_buffer_to(vm, &[to], tag)
        })
    }

    /// `pvm_mcast`: to each once, and not to the caller. `None`: a count that makes no sense.
    pub(crate) fn multicast(&self, to: Option<&[i32]>, tag: i32) -> Outcome {
        self.enrolled(|session, vm| {
            session.buffers.sending()?;
            let to = to.ok_or(Code::BadParam)?;
            if !session.options.reserved && (tag < 0 || !to.iter().all(|&to| tid::is_task(to))) {
                return Err(Code::BadParam);
            }
            let me = session.tid()?;
            let mut others: Vec<i32> = to.iter().copied().filter(|&to| to != me).collect();
            others.sort_unstable();
            others.dedup();
            if others.is_empty() { Ok(0) } else { session.send_buffer_to(vm, &others, tag) }
        })
    }

    /// `pvm_psend`: one array, as it is in memory.
    pub(crate) fn send_array(&self, to: i32, tag: i32, bytes: &[u8]) -> Outcome {
        self.enrolled(|session, vm| {
            if !session.options.reserved && (!tid::is_task(to) || tag < 0) {
                return Err(Code::BadParam);
            }
            let format = Encoding::Raw.format();
            vm.send(to, Envelope { tag, context: session.context, format }, &[bytes])?;
            Ok(0)
        })
    }
}

impl Session {
    /// Sends the send buffer. It stays, and may be sent again.
    pub(super) fn send_buffer_to(&mut self, vm: &mut dyn Vm, to: &[i32], tag: i32) -> Outcome {
        let context = self.context;
        let message = self.buffers.sending()?;
        message.info.context = context;
        message.info.tag = tag;
        if let [one] = to {
            message.info.destination = *one;
        }
        let mut envelope = Envelope { tag, context, format: message.encoding().format() };
        let mut send = |envelope: Envelope, parts: &[&[u8]]| match to {
            [one] => vm.send(*one, envelope, parts),
            many => vm.multicast(many, envelope, parts),
        };
        if message.info.wait != 0 {
            envelope.format |= WAITS;
            let wait = message.info.wait.to_le_bytes();
            message.with_parts(|parts| send(envelope, &[&[&wait[..]][..], parts].concat()))?;
            return Ok(0);
        }
        match (to, message.seal()) {
            ([one], Some(sealed)) => vm.send_sealed(*one, envelope, sealed)?,
            _ => message.with_parts(|parts| send(envelope, parts))?,
        }
        Ok(0)
    }

    /// A trace message goes to the tracer, if there is one that wants it.
    fn send_trace(&mut self, vm: &mut dyn Vm) -> Outcome {
        let tracer = self.options.own;
        if tracer.trace_tid == 0 || !tracer.wants(USER_DEFINED) {
            return Ok(0);
        }
        let message = self.buffers.sending()?;
        message.end_trace()?;
        let was = std::mem::replace(&mut self.context, tracer.trace_context);
        let outcome = self.send_buffer_to(vm, &[tracer.trace_tid], tracer.trace_tag);
        self.context = was;
        outcome
    }
}
