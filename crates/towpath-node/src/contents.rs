//! The content of mailbox entries that the control state only names: kept by the host that leads,
//! from when it is asked for them until the state needs them no more.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use towpath_vm::consensus::checksum::crc32c;
use towpath_vm::registry::{Body, HERE_MAX, Kept, MAIL_BYTES_MAX};
use towpath_vm::talk::{Fault, RegistryAnswer, RegistryOp};
use towpath_wire::HostId;

/// Most bytes kept: those of all entries, and half as many of such as wait for the log.
const KEPT_MAX: usize = MAIL_BYTES_MAX + MAIL_BYTES_MAX / 2;

/// Bytes by their numbers. Invariant: `bytes` sums them.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    by_number: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    last: u64,
}

impl Contents {
    /// Keeps content that is too long for a command, as `holder`.
    fn keep(&mut self, holder: HostId, content: Vec<u8>) -> Result<Body, Fault> {
        if content.len() <= HERE_MAX {
            return Ok(Body::Here(content));
        }
        if self.bytes + content.len() > KEPT_MAX {
            let what = "bytes of mailbox entries that are kept, or wait for the log".into();
            return Err(Fault::Limit { what, limit: KEPT_MAX as u64 });
        }
        self.last += 1;
        self.bytes += content.len();
        let (len, crc) = (content.len() as u32, crc32c(0, &content));
        self.by_number.insert(self.last, content);
        Ok(Body::Kept(Kept { holder, number: self.last, len, crc }))
    }

    /// What a task asks, as the state is to have it; and what is kept for it now.
    pub(crate) fn take_in(
        &mut self,
        holder: HostId,
        op: RegistryOp,
    ) -> Result<(RegistryOp<Body>, Option<Kept>), Fault> {
        let mut kept = None;
        let op = op.with_content(|content| {
            let body = self.keep(holder, content)?;
            if let Body::Kept(k) = &body {
                kept = Some(*k);
            }
            Ok(body)
        })?;
        Ok((op, kept))
    }

    /// What the state answers, as tasks are to have it.
    pub(crate) fn give_out(
        &self,
        me: HostId,
        answer: RegistryAnswer<Body>,
    ) -> Result<RegistryAnswer, Fault> {
        answer.with_content(|body| match body {
            Body::Here(content) => Ok(content),
            Body::Kept(kept) => {
                let content = self.by_number.get(&kept.number).filter(|_| kept.holder == me);
                let whole = content.filter(|content| crc32c(0, content) == kept.crc);
                whole.cloned().ok_or(Fault::HostLost)
            }
        })
    }

    /// Nobody needs it any more.
    pub(crate) fn forget(&mut self, kept: &Kept) {
        if let Some(content) = self.by_number.remove(&kept.number) {
            self.bytes -= content.len();
        }
    }

    /// How many contents are kept.
    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use towpath_vm::registry::{Body, HERE_MAX, MAIL_BYTES_MAX};
    use towpath_vm::talk::{Fault, MAIL_MAX, MailRules, RegistryAnswer, RegistryOp};
    use towpath_wire::HostId;

    use super::{Contents, KEPT_MAX};

    #[test]
    fn each_long_content_has_a_number_of_its_own() {
        let (mut contents, holder) = (Contents::default(), HostId::new(1, 1).unwrap());
        let mut number = |byte| {
            let long = vec![byte; HERE_MAX + 1];
            let (_, kept) = contents.take_in(holder, put(long)).expect("there is room");
            let kept = kept.expect("it is too long for a command");
            assert_eq!((kept.holder, kept.len as usize), (holder, HERE_MAX + 1));
            kept.number
        };
        let numbers = [1, 2, 3].map(&mut number);
        assert!(numbers[0] > 0 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let (_, none) = contents.take_in(holder, put(vec![1; HERE_MAX])).expect("it is short");
        assert_eq!(none, None);
    }

    fn put(content: Vec<u8>) -> RegistryOp {
        let (name, rules) = ("m".into(), MailRules::default());
        RegistryOp::Put { name, index: None, rules, format: 0, content }
    }

    fn mail<C>(content: C) -> RegistryAnswer<C> {
        let rules = MailRules::default();
        RegistryAnswer::Mail { index: 0, owner: None, rules, format: 0, content }
    }

    #[test]
    fn what_is_short_stands_in_the_command_and_what_is_long_is_kept_until_it_is_forgotten() {
        let (mut contents, me) = (Contents::default(), HostId::new(1, 1).expect("a host"));
        let (op, kept) = contents.take_in(me, put(vec![7; HERE_MAX])).expect("there is room");
        let RegistryOp::Put { content, .. } = op else { panic!("{op:?}") };
        assert_eq!((content.len(), kept, contents.len()), (HERE_MAX, None, 0));
        assert_eq!(contents.give_out(me, mail(content)), Ok(mail(vec![7; HERE_MAX])));

        let (op, kept) = contents.take_in(me, put(vec![8; HERE_MAX + 1])).expect("there is room");
        let RegistryOp::Put { content, .. } = op else { panic!("{op:?}") };
        let kept = kept.expect("it is long");
        assert_eq!((&content, contents.len()), (&Body::Kept(kept), 1));
        assert_eq!(contents.give_out(me, mail(content.clone())), Ok(mail(vec![8; HERE_MAX + 1])));
        let other = Body::Kept(towpath_vm::registry::Kept { crc: kept.crc ^ 1, ..kept });
        assert_eq!(contents.give_out(me, mail(other)), Err(Fault::HostLost), "these are others");
        contents.forget(&kept);
        contents.forget(&kept);
        assert_eq!((contents.len(), contents.bytes), (0, 0));
        assert_eq!(contents.give_out(me, mail(content)), Err(Fault::HostLost));
    }

    #[test]
    fn what_waits_for_a_log_that_decides_nothing_has_a_limit() {
        let (mut contents, me) = (Contents::default(), HostId::new(1, 1).expect("a host"));
        for _ in 0..(MAIL_BYTES_MAX + MAIL_BYTES_MAX / 2) / MAIL_MAX {
            contents.take_in(me, put(vec![0; MAIL_MAX])).expect("there is room");
        }
        let refused = contents.take_in(me, put(vec![0; HERE_MAX + 1]));
        assert!(matches!(refused, Err(Fault::Limit { limit, .. }) if limit == KEPT_MAX as u64));
        assert!(contents.take_in(me, put(vec![0; HERE_MAX])).is_ok(), "it is not kept");
    }
}
