//! Trace events of the library: each call that the task's mask names is told to its tracer when it
//! begins and when it has ended, or counted (`PvmTraceCount`) or timed (`PvmTraceTime`) for one
//! event at the task's end.
//!
//! The tracer is the one that whoever spawned the task has said, by a variable of the environment,
//! else the one that is registered (`pvm_reg_tracer`). A task that has none pays one look at a
//! flag for each call.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::events::{Data, Event, Moment, Value, begin_buffer, end_buffer};
use super::mailbox;
use super::options::{MASK, Trace};
use super::roles::TRACER;
use super::session::{Library, Session};
use super::spawn::parse_int;
use crate::code::Code;
use crate::message::Encoding;
use crate::trace_names::{EVENT, EVENTS, datum, event};
use crate::vm::{Envelope, MailWanted, Vm};

/// Who traces a task and how its messages are marked: task, context, tag, with colons; 0: nobody.
const VARIABLE: &str = "TOWPATH_PVM_TRACER";
/// Values of `PvmTraceOptions`; all others are full traces.
const TIME: i32 = 2;
const COUNT: i32 = 3;
/// Largest buffer of events, whatever is asked for, in bytes.
const BUFFER_MAX: usize = 1 << 20;

/// Whether calls are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Traced {
    No,
    Yes,
    /// The task has not entered the virtual machine.
    NotKnown,
}

impl Traced {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::No,
            1 => Self::Yes,
            _ => Self::NotKnown,
        }
    }
}

/// What was told and what is still to be told.
#[derive(Debug, Default)]
pub(super) struct Tracing {
    /// By event, the moments of which the tracer knows what stands in them; empty: none.
    described: Vec<i32>,
    /// Events that wait to be sent together.
    pending: Vec<u8>,
    /// By event, how often it was and how long it took; empty: never.
    totals: Vec<(i32, Duration)>,
}

impl Tracing {
    pub(super) const fn new() -> Self {
        Self { described: Vec::new(), pending: Vec::new(), totals: Vec::new() }
    }
}

thread_local! {
    /// A call of this thread is being told of.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call that is being told of, to its end.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    /// `None`: the thread is inside of another call, which is the one to be told of.
    pub(crate) fn enter() -> Option<Self> {
        // Made only where it is given: its end is the end of the call.
        (!INSIDE.replace(true)).then(|| Self(()))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Runs something of the program's that is called inside of a call: its own calls count.
pub(super) fn outside<R>(step: impl FnOnce() -> R) -> R {
    let inside = INSIDE.replace(false);
    let result = step();
    INSIDE.set(inside);
    result
}

/// Since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Library {
    /// Whether calls are to be told.
    pub(crate) fn traced(&self) -> Traced {
        Traced::of(self.traced.load(Relaxed))
    }

    /// Tells of a call, at this moment; `began`: when it did.
    pub(crate) fn trace(&self, number: usize, moment: Moment, began: Duration, data: &Data) {
        // Outside of a virtual machine nobody is told.
        let _ = self.inside(|session, vm| {
            session.trace(vm, number, moment, began, data);
            Ok(())
        });
    }

    /// Tells of a handler that is called: what it is there for, and the message.
    pub(super) fn trace_handler(&self, [source, tag, context]: [i32; 3], id: i32) {
        if self.traced() != Traced::Yes {
            return;
        }
        let Ok((len, _, info)) = self.buffer_info(id) else { return };
        let data: Data = vec![
            (const { datum("RST") }, source.into()),
            (const { datum("RMC") }, tag.into()),
            (const { datum("RCX") }, context.into()),
            (const { datum("MB") }, id.into()),
            (const { datum("MNB") }, len.into()),
            (const { datum("MC") }, info.tag.into()),
            (const { datum("MCX") }, info.context.into()),
            (const { datum("SRC") }, info.source.into()),
        ];
        self.trace(const { event("mhf_invoke") }, Moment::Entry, now(), &data);
    }

    /// To be called after what changes whether calls are traced.
    pub(super) fn note_tracing(&self, session: &Session) {
        let tracer = session.options.own.trace_tid;
        let traced = match session.identity.as_ref().map(|identity| identity.tid) {
            None => Traced::NotKnown,
            Some(me) if tracer > 0 && tracer != me => Traced::Yes,
            Some(_) => Traced::No,
        };
        self.traced.store(traced as u8, Relaxed);
    }
}

impl Session {
    /// The task has entered the virtual machine.
    pub(super) fn begin_tracing(&mut self, vm: &mut dyn Vm) {
        self.tracing = Tracing::new();
        let given = from_environment();
        if let Some(trace) = given.or_else(|| registered(vm)) {
            let keep = self.options.own;
            let Trace { trace_tid, trace_context, trace_tag, buffer, options, mask, .. } = trace;
            let own = Trace { trace_tid, trace_context, trace_tag, buffer, options, mask, ..keep };
            self.options.own = own;
            let Trace { output_tid, output_context, output_tag, .. } = self.options.child;
            self.options.child = Trace { output_tid, output_context, output_tag, ..own };
        }
        self.trace_task(vm);
    }

    /// What PVM's daemon says of a new task, and, where one was spawned, once more.
    fn trace_task(&mut self, vm: &mut dyn Vm) {
        let Some(identity) = &self.identity else { return };
        let (parent, flags) = match identity.parent {
            Some(parent) => (parent, 0),
            // As PVM says of one that came by itself.
            None if identity.siblings.is_empty() => (-1, -1),
            None => (Code::ParentNotSet.number(), super::spawn::ORPHAN),
        };
        let program = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&program).file_name().unwrap_or_default();
        let mut task: Data = vec![
            (const { datum("PT") }, parent.into()),
            (const { datum("TF") }, flags.into()),
            (const { datum("TN") }, name.as_encoded_bytes().into()),
        ];
        self.trace(vm, const { event("newtask") }, Moment::Alone, now(), &task);
        if parent != -1 {
            task.truncate(1);
            self.trace(vm, const { event("spntask") }, Moment::Alone, now(), &task);
        }
    }

    /// The task leaves the virtual machine.
    pub(super) fn end_tracing(&mut self, vm: &mut dyn Vm) {
        if !self.is_traced() {
            return;
        }
        self.trace_totals(vm);
        let (user, system) = usage();
        let seconds = |time: Duration| Value::Int(time.as_secs() as i32);
        let micros = |time: Duration| Value::Int(time.subsec_micros() as i32);
        let task: Data = vec![
            (const { datum("TST") }, 0.into()),
            (const { datum("TUS") }, seconds(user)),
            (const { datum("TUU") }, micros(user)),
            (const { datum("TSS") }, seconds(system)),
            (const { datum("TSU") }, micros(system)),
        ];
        self.trace(vm, const { event("endtask") }, Moment::Alone, now(), &task);
        self.flush_trace(vm);
    }

    fn is_traced(&self) -> bool {
        let tracer = self.options.own.trace_tid;
        tracer > 0 && self.tid().is_ok_and(|me| me != tracer)
    }

    fn trace(
        &mut self,
        vm: &mut dyn Vm,
        number: usize,
        moment: Moment,
        began: Duration,
        data: &Data,
    ) {
        let own = self.options.own;
        // What a daemon would tell is told in any case.
        if !self.is_traced() || (moment != Moment::Alone && !own.wants(number)) {
            return;
        }
        match own.options {
            TIME | COUNT if moment != Moment::Alone => {
                if moment == Moment::Exit || number == const { event("exit") } {
                    self.count(number, now().saturating_sub(began));
                }
            }
            _ => self.write_event(vm, number, moment, data),
        }
    }

    fn count(&mut self, number: usize, took: Duration) {
        let totals = &mut self.tracing.totals;
        totals.resize(EVENTS, (0, Duration::ZERO));
        totals[number].0 = totals[number].0.saturating_add(1);
        totals[number].1 = totals[number].1.saturating_add(took);
    }

    fn write_event(&mut self, vm: &mut dyn Vm, number: usize, moment: Moment, data: &Data) {
        let Trace { buffer, .. } = self.options.own;
        let room = usize::try_from(buffer).unwrap_or(0).min(BUFFER_MAX);
        let tid = self.tid().unwrap_or(-1);
        let Tracing { described, pending, .. } = &mut self.tracing;
        if pending.is_empty() && room > 0 {
            begin_buffer(pending);
        }
        described.resize(EVENTS, 0);
        // Whoever is no call has one moment.
        let bit = if moment == Moment::Alone { 1 } else { moment as i32 };
        let first = described[number] & bit == 0;
        described[number] |= bit;
        Event { number, moment, time: now(), tid, data }.write(first, pending);
        if pending.len() >= room {
            self.flush_trace(vm);
        }
    }

    /// The tracer, or how it is told, is about to be another: what waits goes as it was to go.
    pub(super) fn settle_trace(&mut self, new_tracer: bool) {
        // Outside of a virtual machine nothing waits.
        let _ = self.with_machine(|session, vm| {
            session.flush_trace(vm);
            Ok(())
        });
        if new_tracer {
            self.tracing.described.clear();
        }
    }

    /// Sends what was written.
    fn flush_trace(&mut self, vm: &mut dyn Vm) {
        let mut pending = std::mem::take(&mut self.tracing.pending);
        if pending.is_empty() {
            return;
        }
        let Trace { trace_tid, trace_context, trace_tag, buffer, .. } = self.options.own;
        if buffer > 0 {
            end_buffer(&mut pending);
        }
        let format = Encoding::DEFAULT.format();
        let envelope = Envelope { tag: trace_tag, context: trace_context, format };
        // Whether a tracer listens is not the program's affair.
        let _ = vm.send(trace_tid, envelope, &[&pending]);
    }

    /// One event for all that were counted.
    fn trace_totals(&mut self, vm: &mut dyn Vm) {
        let options = self.options.own.options;
        if !matches!(options, TIME | COUNT) {
            return;
        }
        let totals = std::mem::take(&mut self.tracing.totals);
        let seen = || totals.iter().enumerate().filter(|(_, total)| total.0 > 0);
        let names = seen().map(|(number, _)| EVENT[number].to_bytes().to_vec()).collect();
        let ints = |part: fn(&(i32, Duration)) -> i32| {
            Value::Ints(seen().map(|(_, total)| part(total)).collect())
        };
        let mut data: Data = vec![
            (const { datum("VCT") }, (seen().count() as i32).into()),
            (const { datum("VID") }, Value::Texts(names)),
        ];
        let number = if options == TIME {
            data.push((const { datum("TGS") }, ints(|total| total.1.as_secs() as i32)));
            data.push((const { datum("TGU") }, ints(|total| total.1.subsec_micros() as i32)));
            const { event("timing") }
        } else {
            const { event("profiling") }
        };
        data.push((const { datum("PRF") }, ints(|total| total.0)));
        self.write_event(vm, number, Moment::Alone, &data);
    }

    /// The variables by which children know their tracer.
    pub(super) fn tracer_of_children(&self, vm: &mut dyn Vm) -> Vec<(Vec<u8>, Vec<u8>)> {
        let child = self.options.child;
        let trace = if child.trace_tid > 0 { None } else { registered(vm) };
        let trace = trace.unwrap_or(child);
        let Trace { trace_tid, trace_context, trace_tag, buffer, options, .. } = trace;
        vec![
            (VARIABLE.into(), format!("{trace_tid}:{trace_context}:{trace_tag}").into_bytes()),
            (b"PVMTMASK".to_vec(), trace.mask_text().to_vec()),
            (b"PVMTRCBUF".to_vec(), buffer.to_string().into_bytes()),
            (b"PVMTRCOPT".to_vec(), options.to_string().into_bytes()),
        ]
    }
}

/// The tracer that whoever spawned this task has said; nobody (task 0) is an answer, too.
fn from_environment() -> Option<Trace> {
    let variable = |name| std::env::var(name).ok();
    let tracer = variable(VARIABLE)?;
    let mut parts = tracer.split(':').map(parse_int);
    let mut trace = Trace::new();
    trace.trace_tid = parts.next().unwrap_or(0);
    trace.trace_context = parts.next().unwrap_or(0);
    trace.trace_tag = parts.next().unwrap_or(0);
    trace.buffer = variable("PVMTRCBUF").map_or(0, |text| parse_int(&text));
    trace.options = variable("PVMTRCOPT").map_or(0, |text| parse_int(&text));
    if let Some(mask) = variable("PVMTMASK") {
        trace.set_mask_text(mask.as_bytes());
    }
    Some(trace)
}

/// What a tracer puts into its mailbox behind its number: contexts and tags of traces and of
/// output, the mask as a string, buffer and options.
pub(crate) fn registration(tags: [i32; 4], mask: &[u8], buffer: i32, options: i32) -> Vec<i32> {
    let mut trace = Trace::new();
    trace.set_mask_text(mask);
    let mask = trace
        .mask
        .chunks_exact(4)
        .map(|four| i32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
    tags.into_iter().chain([MASK as i32]).chain(mask).chain([buffer, options]).collect()
}

/// The tracer that is registered.
fn registered(vm: &mut dyn Vm) -> Option<Trace> {
    let wanted = MailWanted { later: true, ..MailWanted::default() };
    let mail = vm.mail_get(TRACER, wanted).ok()?;
    let mut ints = mailbox::ints_of(&mail.content).into_iter();
    let mut trace = Trace::new();
    trace.trace_tid = ints.next()?;
    trace.trace_context = ints.next()?;
    trace.trace_tag = ints.next()?;
    trace.output_context = ints.next()?;
    trace.output_tag = ints.next()?;
    if ints.next()? != MASK as i32 {
        return None;
    }
    for four in trace.mask.chunks_exact_mut(4) {
        four.copy_from_slice(&ints.next()?.to_ne_bytes());
    }
    trace.buffer = ints.next()?;
    trace.options = ints.next()?;
    Some(trace)
}

/// Time that this process has used itself, and that the system has for it.
fn usage() -> (Duration, Duration) {
    // SAFETY: numbers, of which any bytes are some, written by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec.cast_unsigned(), time.tv_usec as u32 * 1000)
    };
    (time(usage.ru_utime), time(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Element;
    use crate::strided::Strided;
    use crate::vm::fake::World;

    const TAG: i32 = 7;
    const SEND: usize = const { event("send") };
    const RECV: usize = const { event("recv") };

    /// A tracer of sends, and a task that entered the machine after it.
    fn traced_task(buffer: i32, options: i32) -> (Library, Library) {
        let world = World::default();
        let tracer = world.library();
        let mut mask = [b'@'; MASK - 1];
        mask[SEND / 4] |= 1 << (SEND % 4);
        let ints = registration([0, TAG, 0, 0], &mask, buffer, options);
        tracer.toggle_role(TRACER, &ints, false).unwrap();
        let task = world.library();
        assert_eq!(task.traced(), Traced::NotKnown);
        task.my_tid().unwrap();
        assert_eq!((task.traced(), tracer.traced()), (Traced::Yes, Traced::No));
        (tracer, task)
    }

    /// The ints of each trace message that waits.
    fn messages(tracer: &Library) -> Vec<Vec<i32>> {
        let mut all = Vec::new();
        while let 1.. = tracer.receive(-1, TAG, crate::library::Wait::No).unwrap() {
            let (mut ints, mut int) = (Vec::new(), 0_i32);
            loop {
                // SAFETY: one int.
                let to = unsafe { Strided::new((&raw mut int).cast(), 1, 1) }.unwrap();
                if tracer.unpack(Element::Int, to).is_err() {
                    break;
                }
                ints.push(int);
            }
            all.push(ints);
        }
        all
    }

    fn send(task: &Library, tag: i32) {
        let data: Data = vec![(const { datum("MC") }, tag.into())];
        for number in [RECV, SEND] {
            task.trace(number, Moment::Entry, now(), &data);
        }
        task.trace(SEND, Moment::Exit, now(), &data);
    }

    #[test]
    fn a_tracer_is_told_of_what_its_mask_names() {
        let (tracer, task) = traced_task(0, 1);
        let tid = task.my_tid().unwrap();
        send(&task, 5);
        send(&task, 6);
        task.exit().unwrap();
        assert_eq!(task.traced(), Traced::NotKnown);
        let told = messages(&tracer);
        let kinds: Vec<(i32, i32)> = told.iter().map(|ints| (ints[0], ints[1])).collect();
        let (entry, exit) = (SEND as i32 | 0x4000, SEND as i32 | 0x8000);
        let alone = |name: usize| (-5, name as i32);
        assert_eq!(
            kinds,
            [
                alone(const { event("newtask") }),
                (-5, entry),
                (-5, exit),
                (-7, entry),
                (-7, exit),
                alone(const { event("endtask") }),
            ]
        );
        let [.., second, _, _] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((second[4], &second[5..]), (tid, &[6, -8][..]));
    }

    #[test]
    fn events_wait_until_there_are_enough() {
        let (tracer, task) = traced_task(200, 1);
        send(&task, 5);
        let before = messages(&tracer);
        assert_eq!(before.len(), 1);
        send(&task, 6);
        task.exit().unwrap();
        let told: Vec<Vec<i32>> = before.into_iter().chain(messages(&tracer)).collect();
        assert!(told.len() < 6);
        assert!(told.iter().all(|ints| ints[0] == -1 && ints.ends_with(&[-2])), "{told:?}");
        let of = |mark: i32| told.iter().flatten().filter(|int| **int == mark).count();
        assert_eq!((of(-7), of(-5)), (2, 4));
    }

    #[test]
    fn events_that_wait_go_as_they_were_to_go() {
        let (tracer, task) = traced_task(1000, 1);
        send(&task, 5);
        task.set_option(16, 0).unwrap();
        send(&task, 6);
        task.set_option(16, 1000).unwrap();
        send(&task, 7);
        let me = task.my_tid().unwrap();
        task.set_option(14, me).unwrap();
        let told = messages(&tracer);
        let ends: Vec<(i32, i32)> =
            told.iter().map(|ints| (ints[0], ints[ints.len() - 1])).collect();
        assert_eq!(ends, [(-1, -2), (-7, -8), (-7, -8), (-1, -2)]);
    }

    #[test]
    fn a_new_tracer_has_events_described() {
        let (tracer, task) = traced_task(0, 1);
        let id = tracer.my_tid().unwrap();
        for new in [id, 0x99, id] {
            task.set_option(14, new).unwrap();
            send(&task, 5);
        }
        let sends = messages(&tracer).into_iter().filter(|ints| ints[1] & 0xfff == SEND as i32);
        assert_eq!(sends.map(|ints| ints[0]).collect::<Vec<_>>(), [-5, -5, -5, -5]);
    }

    #[test]
    fn calls_are_counted_and_timed() {
        for (options, name, rows) in [(COUNT, "profiling", 1), (TIME, "timing", 3)] {
            let (tracer, task) = traced_task(0, options);
            (0..3).for_each(|tag| send(&task, tag));
            task.exit().unwrap();
            let told = messages(&tracer);
            let number = (0..EVENTS).find(|n| EVENT[*n].to_str() == Ok(name)).unwrap() as i32;
            let total = told.iter().find(|ints| ints[..2] == [-5, number]).unwrap();
            // The count of the one call there was, then the end.
            assert_eq!(total[total.len() - 3..], [1, 3, -6], "{name}");
            assert_eq!(told.len(), 3);
            let prf = const { datum("PRF") };
            assert!(total.contains(&prf) && total.iter().filter(|i| **i == 0x86).count() == rows);
        }
    }

    #[test]
    fn children_get_the_tracer() {
        let (tracer, task) = traced_task(100, 3);
        let tid = tracer.my_tid().unwrap();
        task.enrolled(|session, vm| {
            let variables = session.tracer_of_children(vm);
            let value = |name: &str| {
                let found = variables.iter().find(|(n, _)| n == name.as_bytes()).unwrap();
                String::from_utf8(found.1.clone()).unwrap()
            };
            assert_eq!(value(VARIABLE), format!("{tid}:0:{TAG}"));
            assert_eq!((value("PVMTRCBUF"), value("PVMTRCOPT")), ("100".into(), "3".into()));
            assert_eq!(value("PVMTMASK").len(), MASK - 1);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_tracers_registration_is_what_its_tasks_begin_with() {
        let world = World::default();
        let tracer = world.library();
        let mut mask = [b'@'; MASK - 1];
        mask[3] = b'F';
        let ints = registration([11, 12, 13, 14], &mask, 15, 16);
        assert_eq!(ints.len(), 4 + 1 + MASK / 4 + 2);
        assert_eq!((ints[4], &ints[ints.len() - 2..]), (MASK as i32, &[15, 16][..]));
        tracer.toggle_role(TRACER, &ints, false).unwrap();
        let id = tracer.my_tid().unwrap();
        let task = world.library();
        task.my_tid().unwrap();
        let Trace { trace_tid, trace_context, trace_tag, buffer, options, .. } = task.options().own;
        assert_eq!((trace_tid, trace_context, trace_tag, buffer, options), (id, 11, 12, 15, 16));
        assert_eq!(task.options().own.mask_text(), mask);
        // Its output goes where it went.
        let child = task.options().child;
        let Trace { output_tid, output_context, output_tag, .. } = child;
        assert_eq!((output_tid, output_context, output_tag), (0, 0, 0));
        let Trace { trace_tid, trace_context, trace_tag, buffer, options, .. } = child;
        assert_eq!((trace_tid, trace_context, trace_tag, buffer, options), (id, 11, 12, 15, 16));
        let found = task.enrolled(|_, vm| Ok(registered(vm).unwrap())).unwrap();
        assert_eq!((found.output_context, found.output_tag), (13, 14));
        // What a task says of its children goes before what is registered.
        let me = task.my_tid().unwrap();
        task.set_option(6, me).unwrap();
        task.set_option(7, 99).unwrap();
        let variables = task.enrolled(|session, vm| Ok(session.tracer_of_children(vm))).unwrap();
        assert_eq!(variables[0].1, format!("{me}:11:99").into_bytes());
        // Whose mask has another length is no tracer.
        let other = World::default();
        let tracer = other.library();
        let mut short = ints;
        short[4] -= 1;
        tracer.toggle_role(TRACER, &short, false).unwrap();
        let task = other.library();
        task.my_tid().unwrap();
        assert_eq!(task.traced(), Traced::No);
    }

    #[test]
    fn a_task_begins_as_its_daemon_would_tell_and_ends_with_its_times() {
        let (tracer, task) = traced_task(0, 1);
        let before = now().as_secs() as i32;
        // Time of this process.
        let mut spent = 0_u64;
        while usage().0 < Duration::from_millis(20) {
            spent = spent.wrapping_add(1);
            std::hint::black_box(spent);
        }
        task.exit().unwrap();
        let told = messages(&tracer);
        let [new, end] = told.as_slice() else { panic!("{told:?}") };
        // Each number behind its kind, time first.
        assert!((before - 60..=now().as_secs() as i32).contains(&new[7]), "{new:?}");
        assert!((0..1_000_000).contains(&new[10]));
        let number = |told: &[i32], kind: i32| {
            told.iter().position(|int| *int == kind).map(|at| told[at + 2])
        };
        let (parent, flags) = (const { datum("PT") }, const { datum("TF") });
        let pairs = [parent, flags].map(|kind| new.contains(&kind));
        assert_eq!(pairs, [true; 2]);
        assert!(new.contains(&-1), "it came by itself: {new:?}");
        let kinds = [const { datum("TUS") }, const { datum("TUU") }];
        assert!(kinds.iter().all(|kind| number(end, *kind).is_some()), "{end:?}");
        let (user, system) = usage();
        assert!(user >= Duration::from_millis(20) && system < Duration::from_hours(1));
    }

    #[test]
    fn one_call_at_a_time_of_a_thread_is_told_of() {
        let inside = Inside::enter().unwrap();
        assert!(Inside::enter().is_none(), "a call of a call");
        assert!(outside(|| Inside::enter().is_some()), "but what is called back counts");
        assert!(Inside::enter().is_none());
        drop(inside);
        assert!(Inside::enter().is_some());
        for (number, traced) in [(0, Traced::No), (1, Traced::Yes), (2, Traced::NotKnown)] {
            assert_eq!((Traced::of(number), traced as u8), (traced, number));
        }
    }

    #[test]
    fn who_is_traced_is_known_by_the_tracers_number() {
        let world = World::default();
        let task = world.library();
        let me = task.my_tid().unwrap();
        for (tracer, traced) in [(0, false), (-1, false), (1, true), (me, false), (me + 1, true)] {
            task.set_option(14, tracer).unwrap();
            assert_eq!(task.traced() == Traced::Yes, traced, "{tracer}");
            assert_eq!(task.with(|session| session.is_traced()), traced, "{tracer}");
        }
    }
}
