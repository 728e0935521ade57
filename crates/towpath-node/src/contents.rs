//! The content of mailbox entries that the control state only names: kept by all that keep the log
//! ([`crate::sharing`]), from when the one that leads is asked for them until the state needs them
//! no more.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use towpath_vm::consensus::checksum::crc32c;
use towpath_vm::registry::{Body, HERE_MAX, Kept, MAIL_BYTES_MAX};
use towpath_vm::talk::{Fault, RegistryAnswer, RegistryOp};
use towpath_wire::HostId;

/// Most bytes kept: those of all entries, and half as many of such as wait for the log, or may
/// have to be answered again.
const KEPT_MAX: usize = MAIL_BYTES_MAX + MAIL_BYTES_MAX / 2;

/// Bytes by their names. Invariant: `bytes` sums them.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    by_name: BTreeMap<Kept, Vec<u8>>,
    bytes: usize,
    /// The last number that was given; `None`: none yet in this life.
    last: Option<u64>,
}

impl Contents {
    /// Keeps content that is too long for a command, as `holder`.
    fn keep(&mut self, holder: HostId, content: Vec<u8>) -> Result<Body, Fault> {
        if content.len() <= HERE_MAX {
            return Ok(Body::Here(content));
        }
        let number = self.last.unwrap_or(0) + 1;
        let (len, crc) = (content.len() as u32, crc32c(0, &content));
        let kept = Kept { holder, number, len, crc };
        self.put(kept, content)?;
        self.last = Some(number);
        Ok(Body::Kept(kept))
    }

    fn put(&mut self, kept: Kept, content: Vec<u8>) -> Result<(), Fault> {
        if self.bytes + content.len() > KEPT_MAX {
            let what = "bytes of mailbox entries that are kept, or wait for the log".into();
            return Err(Fault::Limit { what, limit: KEPT_MAX as u64 });
        }
        self.bytes += content.len();
        self.by_name.insert(kept, content);
        Ok(())
    }

    /// No number is given twice by a host that had given some in a life before: the state is asked
    /// once which those are.
    pub(crate) fn begin(&mut self, named: impl FnOnce() -> u64) {
        self.last.get_or_insert_with(named);
    }

    /// Keeps what another one says; false: it is something else, or there is no room for it.
    pub(crate) fn take(&mut self, kept: Kept, content: Vec<u8>) -> bool {
        let is_it = content.len() == kept.len as usize && crc32c(0, &content) == kept.crc;
        is_it && (self.has(&kept) || self.put(kept, content).is_ok())
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
    pub(crate) fn give_out(&self, answer: RegistryAnswer<Body>) -> Result<RegistryAnswer, Fault> {
        answer.with_content(|body| match body {
            Body::Here(content) => Ok(content),
            Body::Kept(kept) => self.get(&kept).map(<[u8]>::to_vec).ok_or(Fault::HostLost),
        })
    }

    pub(crate) fn get(&self, kept: &Kept) -> Option<&[u8]> {
        self.by_name.get(kept).map(Vec::as_slice)
    }

    pub(crate) fn has(&self, kept: &Kept) -> bool {
        self.by_name.contains_key(kept)
    }

    /// All that are here.
    pub(crate) fn names(&self) -> impl Iterator<Item = Kept> {
        self.by_name.keys().copied()
    }

    /// Nobody needs it any more.
    pub(crate) fn forget(&mut self, kept: &Kept) {
        if let Some(content) = self.by_name.remove(kept) {
            self.bytes -= content.len();
        }
    }

    /// Nobody needs any others.
    pub(crate) fn retain(&mut self, needed: &BTreeSet<Kept>) {
        self.by_name.retain(|kept, _| needed.contains(kept));
        self.bytes = self.by_name.values().map(Vec::len).sum();
    }

    /// How many contents are kept.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use alloc::vec::Vec;

    use towpath_vm::registry::{Body, HERE_MAX, Kept, MAIL_BYTES_MAX};
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
        assert_eq!(contents.give_out(mail(content)), Ok(mail(vec![7; HERE_MAX])));

        let (op, kept) = contents.take_in(me, put(vec![8; HERE_MAX + 1])).expect("there is room");
        let RegistryOp::Put { content, .. } = op else { panic!("{op:?}") };
        let kept = kept.expect("it is long");
        assert_eq!((&content, contents.len()), (&Body::Kept(kept), 1));
        assert_eq!(contents.give_out(mail(content.clone())), Ok(mail(vec![8; HERE_MAX + 1])));
        let other = Body::Kept(Kept { crc: kept.crc ^ 1, ..kept });
        assert_eq!(contents.give_out(mail(other)), Err(Fault::HostLost), "these are others");
        contents.forget(&kept);
        contents.forget(&kept);
        assert_eq!((contents.len(), contents.bytes), (0, 0));
        assert_eq!(contents.give_out(mail(content)), Err(Fault::HostLost));
    }

    #[test]
    fn what_another_one_says_is_kept_if_it_is_that_and_there_is_room() {
        let (mut contents, holder) = (Contents::default(), HostId::new(1, 1).expect("a host"));
        let (_, kept) = contents.take_in(holder, put(vec![7; 5000])).expect("there is room");
        let kept = kept.expect("it is long");
        let mut other = Contents::default();
        for wrong in [vec![7; 4999], vec![8; 5000]] {
            assert!(!other.take(kept, wrong));
        }
        assert!(other.take(kept, vec![7; 5000]) && other.take(kept, vec![7; 5000]));
        assert_eq!((other.len(), other.bytes), (1, 5000));
        assert_eq!(other.names().collect::<Vec<_>>(), [kept]);
        other.retain(&BTreeSet::from([Kept { number: 9, ..kept }]));
        assert_eq!((other.len(), other.bytes), (0, 0));
        other.bytes = KEPT_MAX - 4999;
        assert!(!other.take(kept, vec![7; 5000]) && !other.has(&kept));
    }

    #[test]
    fn a_host_that_starts_again_gives_no_number_of_before() {
        let (mut contents, me) = (Contents::default(), HostId::new(1, 1).expect("a host"));
        contents.begin(|| 41);
        contents.begin(|| panic!("it is asked once"));
        let (_, kept) = contents.take_in(me, put(vec![0; 5000])).expect("there is room");
        assert_eq!(kept.map(|kept| kept.number), Some(42));
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
