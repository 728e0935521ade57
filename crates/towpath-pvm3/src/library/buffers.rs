//! Calls about message buffers, and packing into and unpacking from the current ones.

use super::session::{Library, Session};
use crate::code::{Code, Outcome};
use crate::message::{Element, Encoding, Info, Message};
use crate::strided::Strided;

impl Library {
    /// `pvm_mkbuf`.
    pub(crate) fn make_buffer(&self, encoding: i32) -> Outcome {
        // PVM enters the virtual machine here too, and goes on if it cannot.
        let _ = self.my_tid();
        self.with(|session| {
            let source = session.tid().unwrap_or(-1);
            Ok(session.buffers.make(Encoding::asked(encoding)?, source))
        })
    }

    /// `pvm_initsend`: a new send buffer instead of the one that is.
    pub(crate) fn init_send(&self, encoding: i32) -> Outcome {
        let id = self.make_buffer(encoding)?;
        self.with(|session| {
            let old = session.buffers.send();
            session.buffers.free(old)?;
            session.buffers.set_send(id)?;
            Ok(id)
        })
    }

    /// `pvm_freebuf`.
    pub(crate) fn free_buffer(&self, id: i32) -> Outcome {
        self.with(|session| session.buffers.free(id).map(|()| 0))
    }

    /// `pvm_setsbuf`.
    pub(crate) fn set_send_buffer(&self, id: i32) -> Outcome {
        self.with(|session| session.buffers.set_send(id))
    }

    /// `pvm_setrbuf`.
    pub(crate) fn set_receive_buffer(&self, id: i32) -> Outcome {
        self.with(|session| session.buffers.set_receive(id))
    }

    /// `pvm_getsbuf`.
    pub(crate) fn send_buffer(&self) -> i32 {
        self.with(|session| session.buffers.send())
    }

    /// `pvm_getrbuf`.
    pub(crate) fn receive_buffer(&self) -> i32 {
        self.with(|session| session.buffers.receive())
    }

    /// `pvm_bufinfo` and `pvm_getminfo`: length, encoding, and what stands beside them.
    pub(crate) fn buffer_info(&self, id: i32) -> Result<(i32, i32, Info), Code> {
        self.with(|session| {
            let message = session.buffers.get(id)?;
            // PVM does not count what is only lent.
            let lent = message.encoding() == Encoding::InPlace;
            let len = if lent { 0 } else { message.len() as i32 };
            Ok((len, message.encoding().shown(), message.info))
        })
    }

    /// `pvm_setminfo`: all but the checksum.
    pub(crate) fn set_buffer_info(&self, id: i32, info: Info) -> Outcome {
        self.with(|session| {
            let now = &mut session.buffers.get_mut(id)?.info;
            *now = Info { checksum: now.checksum, ..info };
            Ok(0)
        })
    }

    /// `pvm_pkint` and so on.
    pub(crate) fn pack(&self, element: Element, from: Strided<'_>) -> Outcome {
        self.with(|session| {
            session.place(from.count().saturating_mul(element.size()));
            session.buffers.sending()?.pack(element, from).map(|()| 0)
        })
    }

    /// `pvm_upkint` and so on.
    pub(crate) fn unpack(&self, element: Element, to: Strided<'_>) -> Outcome {
        self.with(|session| session.buffers.receiving()?.unpack(element, to).map(|()| 0))
    }

    /// `pvm_pkstr`; `text` without its end.
    pub(crate) fn pack_text(&self, text: &[u8]) -> Outcome {
        self.with(|session| session.buffers.sending()?.pack_text(text).map(|()| 0))
    }

    /// `pvm_upkstr`: `place` gives the memory for so many bytes.
    pub(crate) fn unpack_text<'a>(
        &self,
        place: impl FnOnce(usize) -> Result<Strided<'a>, Code>,
    ) -> Outcome {
        self.with(|session| {
            let message = session.buffers.receiving()?;
            let Some(len) = message.unpack_text_len()? else { return Ok(0) };
            message.unpack(Element::Byte, place(len)?).map(|()| 0)
        })
    }

    /// `pvm_pkmesg`.
    pub(crate) fn pack_message(&self, id: i32) -> Outcome {
        self.nest(id, Message::pack_message)
    }

    /// `pvm_pkmesgbody`.
    pub(crate) fn pack_body(&self, id: i32) -> Outcome {
        self.nest(id, Message::pack_body)
    }

    fn nest(
        &self,
        id: i32,
        pack: impl FnOnce(&mut Message, &Message) -> Result<(), Code>,
    ) -> Outcome {
        self.with(|session| {
            session.buffers.get(id)?;
            if session.buffers.send() == 0 {
                return Err(Code::NoBuf);
            }
            session.buffers.with_both(id, pack).map(|()| 0)
        })
    }

    /// `pvm_upkmesg`: the number of a new buffer.
    pub(crate) fn unpack_message(&self) -> Outcome {
        self.with(|session| {
            let message = session.buffers.receiving()?.unpack_message()?;
            Ok(session.buffers.insert(message))
        })
    }
}

impl Session {
    /// The send buffer moves to where tasks of this host can read it, if `more` bytes make it so
    /// long that this pays.
    fn place(&mut self, more: usize) {
        if let Ok(message) = self.buffers.sending()
            && let Some(wanted) = message.wants_loan(more)
            && let Some(loan) = self.vm.as_mut().and_then(|vm| vm.loan(wanted))
        {
            message.move_to(loan);
        }
    }
}
