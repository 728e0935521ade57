//! `pvm_setopt` and `pvm_getopt`, and the trace settings.

use std::sync::atomic::Ordering::Relaxed;

use super::session::{Library, Session};
use crate::code::{Code, Outcome};
use crate::vm::MailRules;

/// Length of a trace mask with its end.
pub(crate) const MASK: usize = 36;
/// Smallest and largest fragment that may be asked for, in bytes.
const FRAGMENT: std::ops::RangeInclusive<i32> = 52..=1_048_576;
/// The option that sets it.
const FRAGMENT_SIZE: i32 = 10;
/// The one that a task begins with, each time that it enrols.
pub(super) const FRAGMENT_DEFAULT: i32 = 4080;
/// Mailbox of the tasks that a reset spares.
pub(super) const NO_RESET_CLASS: &str = "###_PVM_NO_RESET_###";

/// Where output and trace messages of a task go (`struct Pvmtracer`).
#[allow(clippy::struct_field_names)] // Those of output beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Trace {
    pub(crate) trace_tid: i32,
    pub(crate) trace_context: i32,
    pub(crate) trace_tag: i32,
    pub(crate) output_tid: i32,
    pub(crate) output_context: i32,
    pub(crate) output_tag: i32,
    pub(crate) buffer: i32,
    pub(crate) options: i32,
    /// Four events a character, in its low bits.
    pub(crate) mask: [u8; MASK],
}

impl Trace {
    pub(crate) const fn new() -> Self {
        let mut mask = [b'@'; MASK];
        mask[MASK - 1] = 0;
        Self {
            trace_tid: 0,
            trace_context: 0,
            trace_tag: 0,
            output_tid: 0,
            output_context: 0,
            output_tag: 0,
            buffer: 0,
            options: 0,
            mask,
        }
    }

    /// The mask without its end.
    pub(crate) fn mask_text(&self) -> &[u8] {
        self.mask.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Takes a mask over; one of another length is none, as in PVM.
    pub(crate) fn set_mask_text(&mut self, mask: &[u8]) {
        if mask.len() == MASK - 1 {
            self.mask[..MASK - 1].copy_from_slice(mask);
        }
    }

    /// Whether the mask names an event.
    pub(crate) fn wants(&self, event: usize) -> bool {
        self.mask.get(event / 4).is_some_and(|bits| bits & (1 << (event % 4)) != 0)
    }
}

/// What `pvm_setopt` sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// 1 by the daemons, 2 direct if the other asks, 3 direct. Kept; the route is found by use.
    pub(crate) route: i32,
    pub(crate) debug: i32,
    /// 0 nothing, 1 print errors, 2 leave, 3 abort.
    pub(crate) on_error: i32,
    /// Kept; pieces are cut as the route wants them.
    pub(crate) fragment: i32,
    /// Reserved numbers and tags may be used.
    pub(crate) reserved: bool,
    pub(crate) reserved_value: i32,
    pub(crate) show_tids: i32,
    pub(crate) no_reset: i32,
    /// Settings of this task, and those that its children begin with.
    pub(crate) own: Trace,
    pub(crate) child: Trace,
}

impl Options {
    pub(crate) const fn new() -> Self {
        Self {
            route: 2,
            debug: 0,
            on_error: 1,
            fragment: FRAGMENT_DEFAULT,
            reserved: false,
            reserved_value: 0,
            show_tids: 1,
            no_reset: 0,
            own: Trace::new(),
            child: Trace::new(),
        }
    }

    /// Children begin with the task's own settings for output.
    fn pass_output_on(&mut self) {
        self.child.output_tid = self.own.output_tid;
        self.child.output_context = self.own.output_context;
        self.child.output_tag = self.own.output_tag;
    }

    /// Children begin with the task's own settings for tracing.
    fn pass_trace_on(&mut self) {
        self.child.trace_tid = self.own.trace_tid;
        self.child.trace_context = self.own.trace_context;
        self.child.trace_tag = self.own.trace_tag;
    }

    /// The value of an option.
    pub(crate) fn value(&self, what: i32) -> Outcome {
        // tidy: dispatch
        Ok(match what {
            1 => self.route,
            2 => self.debug,
            3 => self.on_error,
            4 => self.child.output_tid,
            5 => self.child.output_tag,
            6 => self.child.trace_tid,
            7 => self.child.trace_tag,
            8 => self.child.buffer,
            9 => self.child.options,
            10 => self.fragment,
            11 => self.reserved_value,
            12 => self.own.output_tid,
            13 => self.own.output_tag,
            14 => self.own.trace_tid,
            15 => self.own.trace_tag,
            16 => self.own.buffer,
            17 => self.own.options,
            18 => self.show_tids,
            21 => self.child.output_context,
            22 => self.child.trace_context,
            23 => self.own.output_context,
            24 => self.own.trace_context,
            25 => self.no_reset,
            // 19 and 20 are of PVM for shared memory machines.
            _ => return Err(Code::BadParam),
        })
    }

    /// A task may send its children's output to itself, or where its own goes, or nowhere.
    fn set_child_output(&mut self, tid: i32, me: i32) -> Result<(), Code> {
        let same = tid == self.own.output_tid && self.child.output_tag == self.own.output_tag;
        if tid != 0 && tid != me && !same {
            return Err(Code::BadParam);
        }
        self.child.output_tid = tid;
        Ok(())
    }

    fn set_child_trace(&mut self, tid: i32, me: i32) -> Result<(), Code> {
        let same = tid == self.own.trace_tid && self.child.trace_tag == self.own.trace_tag;
        if tid != 0 && tid != me && !same {
            return Err(Code::BadParam);
        }
        self.child.trace_tid = tid;
        Ok(())
    }

    /// Sets an option of those that only this task is concerned with. Gives the value before.
    fn set(&mut self, what: i32, value: i32, me: i32) -> Outcome {
        let before = match what {
            13 | 15 => 0,
            _ => self.value(what)?,
        };
        // A destination that is another task keeps its tag and context.
        let may = |tid: i32, same: bool| {
            if tid > 0 && tid != me && !same { Err(Code::BadParam) } else { Ok(()) }
        };
        let (own, child) = (self.own, self.child);
        // tidy: dispatch
        match what {
            1 | 9 | 17 if !(1..=3).contains(&value) => return Err(Code::BadParam),
            1 => self.route = value,
            2 => self.debug = value,
            3 => self.on_error = value,
            4 => self.set_child_output(value, me)?,
            5 => {
                may(child.output_tid, value == own.output_tag)?;
                self.child.output_tag = value;
            }
            6 => self.set_child_trace(value, me)?,
            7 => {
                may(child.trace_tid, value == own.trace_tag)?;
                self.child.trace_tag = value;
            }
            8 => self.child.buffer = value,
            9 => self.child.options = value,
            10 if !FRAGMENT.contains(&value) => return Err(Code::BadParam),
            10 => self.fragment = value,
            11 => {
                self.reserved_value = value;
                self.reserved = value != 0;
            }
            12 => {
                self.own.output_tid = value;
                self.pass_output_on();
            }
            // Without a destination PVM does nothing, and says 0.
            13 if own.output_tid <= 0 => {}
            13 => {
                self.own.output_tag = value;
                self.pass_output_on();
                return Ok(own.output_tag);
            }
            14 => {
                self.own.trace_tid = value;
                self.pass_trace_on();
            }
            15 if own.trace_tid <= 0 => {}
            15 => {
                self.own.trace_tag = value;
                self.pass_trace_on();
                return Ok(own.trace_tag);
            }
            16 => self.own.buffer = value,
            17 => self.own.options = value,
            18 => self.show_tids = value,
            21 => {
                may(child.output_tid, value == own.output_context)?;
                self.child.output_context = value;
            }
            22 => {
                may(child.trace_tid, value == own.trace_context)?;
                self.child.trace_context = value;
            }
            _ => return Err(Code::NotImpl),
        }
        Ok(before)
    }
}

impl Library {
    /// `pvm_getopt`.
    pub(crate) fn option(&self, what: i32) -> Outcome {
        self.with(|session| session.options.value(what))
    }

    /// `pvm_setopt`: the value before.
    pub(crate) fn set_option(&self, what: i32, value: i32) -> Outcome {
        if what == FRAGMENT_SIZE {
            // It begins anew with each task, as in PVM: one that enrols later would lose it.
            let _ = self.my_tid();
        }
        match what {
            // Of PVM for shared memory machines; contexts of the task's own output and trace.
            19 | 20 | 23 | 24 => Err(Code::NotImpl),
            25 => self.set_no_reset(value),
            // Where output goes is the machine's business.
            4 | 12 => self.enrolled(|session, vm| {
                let me = session.tid()?;
                let before = session.options.set(what, value, me)?;
                vm.catch_output(session.options.child.output_tid == me)?;
                Ok(before)
            }),
            _ => self.with(|session| {
                let me = session.tid().unwrap_or(-1);
                if let 14..=17 = what {
                    session.settle_trace(what == 14 && value != session.options.own.trace_tid);
                }
                let before = session.options.set(what, value, me);
                self.note_tracing(session);
                before
            }),
        }
    }

    /// A task that a reset spares stands in a mailbox.
    fn set_no_reset(&self, value: i32) -> Outcome {
        if self.tid_now() < 0 {
            return Err(Code::BadParam);
        }
        self.enrolled(|session, vm| {
            let before = session.options.no_reset;
            if value != 0 && before == 0 {
                let content = session.tid_mail()?;
                let rules = MailRules { many: true, ..MailRules::default() };
                let place = vm.mail_put(NO_RESET_CLASS, 0, rules, content);
                session.no_reset = Some(place.map_err(|_| Code::SysErr)?);
            } else if value == 0
                && let Some(place) = session.no_reset.take()
            {
                vm.mail_delete(NO_RESET_CLASS, place).map_err(|_| Code::SysErr)?;
            }
            session.options.no_reset = value;
            Ok(before)
        })
    }

    /// `pvm_gettmask`: 0 for this task's, 1 for its children's.
    pub(crate) fn trace_mask(&self, who: i32) -> Result<[u8; MASK], Code> {
        self.with(|session| match who {
            0 => Ok(session.options.own.mask),
            1 => Ok(session.options.child.mask),
            _ => Err(Code::BadParam),
        })
    }

    /// `pvm_settmask`.
    pub(crate) fn set_trace_mask(&self, who: i32, mask: [u8; MASK]) -> Outcome {
        self.with(|session| {
            match who {
                0 => session.options.own.mask = mask,
                1 => session.options.child.mask = mask,
                _ => return Err(Code::BadParam),
            }
            Ok(0)
        })
    }

    /// All options.
    pub(crate) fn options(&self) -> Options {
        self.with(|session| session.options)
    }

    /// The context.
    pub(crate) fn context(&self) -> i32 {
        self.with(|session| session.context)
    }

    /// `pvm_getcontext`. A child is in its spawner's context from its first call on, so it enrols;
    /// a process that cannot has a context all the same, as in PVM.
    pub(crate) fn context_of_task(&self) -> i32 {
        let _ = self.my_tid();
        self.context()
    }

    /// `pvm_setcontext`: the context before. The process enrols, as for
    /// [`Self::context_of_task`]: later, that would set the context again.
    pub(crate) fn set_context_of_task(&self, context: i32) -> i32 {
        let _ = self.my_tid();
        self.set_context(context)
    }

    /// Goes into another context: the context before.
    pub(crate) fn set_context(&self, context: i32) -> i32 {
        self.with(|session| std::mem::replace(&mut session.context, context))
    }

    /// `pvm_addmhf`.
    pub(crate) fn add_handler(
        &self,
        source: i32,
        tag: i32,
        context: i32,
        handler: super::handlers::Handler,
    ) -> Outcome {
        self.with(|session| {
            let number = session.handlers.add(source, tag, context, handler)?;
            self.has_handlers.store(true, Relaxed);
            Ok(number)
        })
    }

    /// The handlers: number, source, tag, context.
    pub(crate) fn handlers(&self) -> Vec<(i32, i32, i32, i32)> {
        self.with(|session| session.handlers.list())
    }

    /// `pvm_delmhf`.
    pub(crate) fn delete_handler(&self, number: i32) -> Outcome {
        self.with(|session| {
            session.handlers.delete(number)?;
            self.has_handlers.store(!session.handlers.is_empty(), Relaxed);
            Ok(0)
        })
    }
}

impl Session {
    /// Content of a mailbox entry that names this task.
    pub(super) fn tid_mail(&self) -> Result<Vec<u8>, Code> {
        let tid = self.tid()?;
        super::mailbox::content_of(&[tid])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Values, codes and effects as tried with PVM 3.4.6.
    #[test]
    fn options_behave_as_in_pvm() {
        let mut options = Options::new();
        let me = 0x4_000d;
        for (what, value, gives) in [
            (10, 40, Err(Code::BadParam)),
            (10, 52, Ok(4080)),
            (10, 1_048_576, Ok(52)),
            (10, 1_048_577, Err(Code::BadParam)),
            (1, 4, Err(Code::BadParam)),
            (1, 3, Ok(2)),
            (26, 4, Err(Code::BadParam)),
            (15, 4, Ok(0)),
            (4, 5, Err(Code::BadParam)),
            (4, me, Ok(0)),
            (5, 9, Ok(0)),
            (21, 9, Ok(0)),
            (9, 1, Ok(0)),
            (9, 7, Err(Code::BadParam)),
            (8, 100, Ok(0)),
            (12, me, Ok(0)),
            (13, 5, Ok(0)),
            (18, 0, Ok(1)),
            (17, 2, Ok(0)),
            (3, 7, Ok(1)),
            (3, 0, Ok(7)),
            (11, 1, Ok(0)),
            (11, 0, Ok(1)),
        ] {
            assert_eq!(options.set(what, value, me), gives, "option {what} to {value}");
        }
        // The task's own settings are passed on.
        assert_eq!((options.value(4), options.value(5)), (Ok(me), Ok(5)));
        for what in [0, 19, 20, 26] {
            assert_eq!(options.value(what), Err(Code::BadParam));
        }
    }

    #[test]
    fn a_mask_names_events() {
        let mut trace = Trace::new();
        assert!(!trace.wants(108));
        trace.mask[27] |= 1;
        assert!(trace.wants(108) && !trace.wants(107));
        assert!(!trace.wants(4000));
        assert_eq!(std::mem::size_of::<Trace>(), 68);
    }

    const ME: i32 = 0x4_000d;
    const OTHER: i32 = 0x4_000e;

    fn values(options: &Options) -> BTreeMap<i32, i32> {
        (0..30).filter_map(|what| Some((what, options.value(what).ok()?))).collect()
    }

    /// What is other than it was.
    fn changed(before: &BTreeMap<i32, i32>, options: &Options) -> Vec<(i32, i32)> {
        values(options).into_iter().filter(|(what, value)| before[what] != *value).collect()
    }

    #[test]
    fn each_option_is_kept_by_itself_but_for_what_children_begin_with() {
        let begun = values(&Options::new());
        let there: Vec<i32> = begun.keys().copied().collect();
        assert_eq!(there, [&(1..19).collect::<Vec<_>>()[..], &[21, 22, 23, 24, 25]].concat());
        let not_zero: Vec<_> = begun.iter().filter(|(_, value)| **value != 0).collect();
        assert_eq!(not_zero, [(&1, &2), (&3, &1), (&10, &4080), (&18, &1)]);
        for (what, value, passed_on) in [
            (1, 1, None),
            (2, 5, None),
            (3, 2, None),
            (4, ME, None),
            (5, 77, None),
            (6, ME, None),
            (7, 78, None),
            (8, 4096, None),
            (9, 2, None),
            (10, 8000, None),
            (11, 6, None),
            (12, ME, Some(4)),
            (14, ME, Some(6)),
            (16, 512, None),
            (17, 3, None),
            (18, 7, None),
            (21, 9, None),
            (22, 8, None),
        ] {
            let mut options = Options::new();
            assert_eq!(options.set(what, value, ME), Ok(begun[&what]), "option {what}");
            let mut expected = vec![(what, value)];
            expected.extend(passed_on.map(|what| (what, value)));
            expected.sort_unstable();
            assert_eq!(changed(&begun, &options), expected, "option {what}");
            assert_eq!(options.reserved, what == 11);
        }
        for (what, code) in [
            (0, Code::BadParam),
            (19, Code::BadParam),
            (20, Code::BadParam),
            (23, Code::NotImpl),
            (24, Code::NotImpl),
            (25, Code::NotImpl),
            (26, Code::BadParam),
        ] {
            let mut options = Options::new();
            assert_eq!(options.set(what, 1, ME), Err(code), "option {what}");
            assert_eq!(changed(&begun, &options), []);
        }
        for what in [1, 9, 17] {
            for value in [0, 4, -1] {
                let mut options = Options::new();
                assert_eq!(options.set(what, value, ME), Err(Code::BadParam));
                assert_eq!(changed(&begun, &options), []);
            }
        }
    }

    /// Output and trace go by the same rules: the numbers of their options differ.
    #[test]
    fn a_destination_that_is_another_task_keeps_its_tag_and_context() {
        for (own, own_tag, child, child_tag, child_context) in
            [(12, 13, 4, 5, 21), (14, 15, 6, 7, 22)]
        {
            let mut options = Options::new();
            // Without a destination there is no tag.
            let begun = values(&options);
            assert_eq!(options.set(own_tag, 5, ME), Ok(0));
            assert_eq!(changed(&begun, &options), []);
            assert_eq!(options.set(own, OTHER, ME), Ok(0));
            assert_eq!(options.set(own_tag, 5, ME), Ok(0));
            assert_eq!(options.set(own_tag, 6, ME), Ok(5), "the tag before");
            let mut expected = [(own, OTHER), (own_tag, 6), (child, OTHER), (child_tag, 6)];
            expected.sort_unstable();
            assert_eq!(changed(&begun, &options), expected);
            // A child's output goes there with this tag and context, or not there.
            assert_eq!(options.set(child_tag, 7, ME), Err(Code::BadParam));
            assert_eq!(options.set(child_tag, 6, ME), Ok(6));
            assert_eq!(options.set(child_context, 3, ME), Err(Code::BadParam));
            assert_eq!(options.set(child_context, 0, ME), Ok(0));
            assert_eq!(options.set(child, 0, ME), Ok(OTHER));
            assert_eq!(options.set(child, OTHER, ME), Ok(0));
            assert_eq!(options.set(child, ME, ME), Ok(OTHER));
            assert_eq!(options.set(child_tag, 7, ME), Ok(6));
            assert_eq!(options.set(child_context, 3, ME), Ok(0));
            assert_eq!(options.set(child, OTHER, ME), Err(Code::BadParam), "its tag is another");
            assert_eq!(options.set(child, OTHER + 1, ME), Err(Code::BadParam));
            assert_eq!(options.value(child), Ok(ME));
            assert_eq!(options.set(child, 0, ME), Ok(ME));
            // What is said of the task's own is said of children, too.
            assert_eq!(options.set(own_tag, 8, ME), Ok(6));
            assert_eq!((options.value(child), options.value(child_tag)), (Ok(OTHER), Ok(8)));
            assert_eq!(options.value(child_context), Ok(0));
        }
    }

    #[test]
    fn a_mask_is_text_with_an_end_and_of_one_length() {
        let mut trace = Trace::new();
        assert_eq!(trace.mask_text(), [b'@'; MASK - 1]);
        assert!((0..400).all(|event| !trace.wants(event)));
        trace.set_mask_text(&[b'A'; MASK - 2]);
        trace.set_mask_text(&[b'A'; MASK]);
        assert_eq!(trace.mask_text(), [b'@'; MASK - 1], "another length is none");
        let mut text = [b'@'; MASK - 1];
        (text[0], text[3]) = (b'A', b'F');
        trace.set_mask_text(&text);
        assert_eq!(trace.mask_text(), text);
        let wanted: Vec<usize> = (0..4 * MASK).filter(|event| trace.wants(*event)).collect();
        assert_eq!(wanted, [0, 13, 14]);
        trace.mask[2] = 0;
        assert_eq!(trace.mask_text(), b"A@", "it ends where a program ends it");
    }
}
