//! Message handlers: which function is called for which message.

use crate::code::{Code, Outcome};

/// A function of the program, called with the number of the message's buffer.
pub(crate) type Handler = unsafe extern "C" fn(i32) -> i32;

/// Context of the library's own messages.
pub(super) const OWN_CONTEXT: i32 = 0x7_ffff;
/// Tag of the first of PVM's own control messages.
pub(super) const OWN_TAG: i32 = 0x8003_0001_u32.cast_signed();
/// Handlers that PVM's library has of its own: they take the first numbers, and keep programs
/// from handlers for every message.
const OWN: i32 = 9;

#[derive(Clone, Copy, Debug)]
struct Entry {
    source: i32,
    tag: i32,
    context: i32,
    /// `None`: one of PVM's own, which Towpath has no messages for.
    handler: Option<Handler>,
}

const fn meet(a: i32, b: i32) -> bool {
    a == -1 || b == -1 || a == b
}

/// The handlers of a task. Numbers are those of PVM: 9 and up, the last deleted first.
#[derive(Debug)]
pub(super) struct Handlers {
    entries: Vec<Option<Entry>>,
    free: Vec<i32>,
    /// How many the program has.
    count: usize,
}

impl Handlers {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), count: 0 }
    }

    /// The program has none.
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// `pvm_addmhf`; −1 stands for any. No message may have two handlers.
    pub(super) fn add(&mut self, source: i32, tag: i32, context: i32, handler: Handler) -> Outcome {
        self.add_own();
        let taken = self.entries.iter().flatten().any(|entry| {
            meet(entry.source, source) && meet(entry.tag, tag) && meet(entry.context, context)
        });
        if taken {
            return Err(Code::Exists);
        }
        let entry = Some(Entry { source, tag, context, handler: Some(handler) });
        self.count += 1;
        if let Some(number) = self.free.pop() {
            self.entries[number as usize] = entry;
            return Ok(number);
        }
        self.entries.push(entry);
        Ok(self.entries.len() as i32 - 1)
    }

    fn add_own(&mut self) {
        let own = |kind| {
            let tag = OWN_TAG + kind;
            Some(Entry { source: -1, tag, context: OWN_CONTEXT, handler: None })
        };
        if self.entries.is_empty() {
            self.entries.extend((0..OWN).map(own));
        }
    }

    /// `pvm_delmhf`.
    pub(super) fn delete(&mut self, number: i32) -> Outcome {
        self.add_own();
        let index = usize::try_from(number).map_err(|_| Code::BadParam)?;
        let slot = self.entries.get_mut(index).ok_or(Code::NotFound)?;
        let entry = slot.take().ok_or(Code::NotFound)?;
        self.count -= usize::from(entry.handler.is_some());
        self.free.push(number);
        Ok(0)
    }

    /// Number, source, tag and context of each.
    pub(super) fn list(&self) -> Vec<(i32, i32, i32, i32)> {
        let row = |(number, entry): (usize, &Option<Entry>)| {
            entry.map(|entry| (number as i32, entry.source, entry.tag, entry.context))
        };
        self.entries.iter().enumerate().filter_map(row).collect()
    }

    /// Whom to call for a message, and the source, tag and context that he is there for.
    pub(super) fn find(&self, source: i32, tag: i32, context: i32) -> Option<(Handler, [i32; 3])> {
        if self.is_empty() {
            return None;
        }
        let fits = |entry: &&Entry| {
            (entry.source == -1 || entry.source == source)
                && (entry.tag == -1 || entry.tag == tag)
                && (entry.context == -1 || entry.context == context)
        };
        let entry = self.entries.iter().flatten().find(fits)?;
        Some((entry.handler?, [entry.source, entry.tag, entry.context]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn nothing(_: i32) -> i32 {
        0
    }

    /// As tried with PVM 3.4.6.
    #[test]
    fn numbers_and_conflicts_are_those_of_pvm() {
        let mut handlers = Handlers::new();
        assert_eq!(handlers.add(-1, 77, -1, nothing), Ok(9));
        assert_eq!(handlers.add(-1, 77, 5, nothing), Err(Code::Exists));
        assert_eq!(handlers.add(-1, -1, -1, nothing), Err(Code::Exists));
        assert_eq!(handlers.add(0x4_0001, 78, 3, nothing), Ok(10));
        assert_eq!(handlers.add(-1, -1, 0, nothing), Err(Code::Exists));
        assert_eq!(handlers.delete(9), Ok(0));
        assert_eq!(handlers.delete(9), Err(Code::NotFound));
        assert_eq!(handlers.delete(-3), Err(Code::BadParam));
        assert_eq!(handlers.delete(99), Err(Code::NotFound));
        assert_eq!(handlers.add(-1, 88, 0, nothing), Ok(9));
        assert_eq!(handlers.add(-1, 89, 0, nothing), Ok(11));
        assert!(handlers.find(5, 88, 0).is_some());
        assert!(handlers.find(5, 88, 1).is_none());
        assert!(handlers.find(0x4_0001, 78, 3).is_some());
        assert!(handlers.find(0x4_0002, 78, 3).is_none());
    }

    /// Every way to say source, tag and context of three values each, −1 for any.
    fn ways() -> impl Iterator<Item = [i32; 3]> {
        let values = [-1, 7, 8];
        (0..27).map(move |n| [values[n / 9], values[n / 3 % 3], values[n % 3]])
    }

    #[test]
    fn two_handlers_for_one_message_are_refused_and_no_others() {
        for [source, tag, context] in ways() {
            let mut handlers = Handlers::new();
            assert!(handlers.is_empty());
            let first = handlers.add(source, tag, context, nothing);
            // PVM's own messages have handlers already.
            if tag == -1 && context == -1 {
                assert_eq!(first, Err(Code::Exists));
                assert!(handlers.is_empty());
                continue;
            }
            assert_eq!((first, handlers.is_empty()), (Ok(9), false));
            for way in ways().filter(|way| way[1] != -1 || way[2] != -1) {
                let one = [source, tag, context];
                let apart = (0..3).any(|n| one[n] != -1 && way[n] != -1 && one[n] != way[n]);
                let added = handlers.add(way[0], way[1], way[2], nothing);
                assert_eq!(added.is_ok(), apart, "{one:?} and {way:?}");
                if let Ok(number) = added {
                    handlers.delete(number).unwrap();
                }
            }
            for way in ways().filter(|way| !way.contains(&-1)) {
                let one = [source, tag, context];
                let fits = (0..3).all(|n| one[n] == -1 || one[n] == way[n]);
                let found = handlers.find(way[0], way[1], way[2]).map(|(_, found)| found);
                assert_eq!(found, fits.then_some(one), "{way:?}");
            }
            assert_eq!(handlers.delete(9), Ok(0));
            assert!(handlers.is_empty() && handlers.find(7, 7, 7).is_none());
        }
    }

    #[test]
    fn all_handlers_are_listed_with_pvms_own_before_them() {
        let mut handlers = Handlers::new();
        assert_eq!(handlers.list(), []);
        assert_eq!(handlers.delete(8), Ok(0), "PVM's own can be taken away");
        assert!(handlers.is_empty());
        assert_eq!(handlers.add(3, 4, 5, nothing), Ok(8));
        assert_eq!(handlers.add(3, 4, 6, nothing), Ok(9));
        let list = handlers.list();
        assert_eq!(list.len(), 10);
        for (number, row) in (0..8).zip(&list) {
            assert_eq!(*row, (number, -1, OWN_TAG + number, OWN_CONTEXT));
        }
        assert_eq!(list[8..], [(8, 3, 4, 5), (9, 3, 4, 6)]);
        // What PVM's own are for is nobody's else.
        assert!(handlers.find(1, OWN_TAG, OWN_CONTEXT).is_none());
        assert_eq!(handlers.add(1, OWN_TAG, OWN_CONTEXT, nothing), Err(Code::Exists));
        assert_eq!(handlers.add(1, OWN_TAG + 8, OWN_CONTEXT, nothing), Ok(10));
    }
}
