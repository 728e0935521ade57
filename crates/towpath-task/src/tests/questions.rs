//! Questions to the virtual machine, with a daemon that the test plays.

use towpath_vm::talk::{
    Answer, Fault, MailRules, Question, RegistryAnswer, RegistryOp, SpawnTasks, Subject, ToDaemon,
    ToTask, WatchEvent,
};
use towpath_vm::{Stream, TaskInfo};
use towpath_wire::{HostId, TaskId};

use super::actors::enrol;
use super::stage::{Heard, LONG, Side, Stage};
use crate::error::AskError;
use crate::event::Event;
use crate::groups::{Mail, Members};
use crate::task::Task;

fn host() -> HostId {
    HostId::new(2, 1).unwrap()
}

fn peer() -> TaskId {
    host().task(9).unwrap()
}

fn info(n: u32) -> TaskInfo {
    TaskInfo {
        id: host().task(n).unwrap(),
        requester: host(),
        pid: 7,
        age_us: 1,
        command: "x".into(),
        parent: None,
        enrolled: true,
        started: false,
        channels: 0,
        reserved_bps: 0,
    }
}

struct Asked {
    task: Task,
    side: Side,
}

impl Asked {
    fn new() -> Self {
        let (task, side) = enrol(&mut Stage::new(), 1);
        Self { task, side }
    }

    /// What is asked, and what comes of this answer.
    fn with<T: Send>(
        &mut self,
        answer: Result<Answer, Fault>,
        ask: impl FnOnce(&mut Task) -> Result<T, AskError> + Send,
    ) -> (Question, Result<T, AskError>) {
        let Self { task, side } = self;
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| ask(task));
            let Heard::Control(ToDaemon::Ask { number, question }) = side.hear() else {
                panic!("no question")
            };
            side.say(&ToTask::Answer { number, answer });
            (question, asks.join().unwrap())
        })
    }

    /// The same question gets its answer, an answer to another one, and a fault.
    fn all<T: Send + PartialEq + std::fmt::Debug>(
        &mut self,
        question: &Question,
        answer: Answer,
        expected: T,
        ask: impl Fn(&mut Task) -> Result<T, AskError> + Send + Sync,
    ) {
        let (asked, told) = self.with(Ok(answer), &ask);
        assert_eq!((&asked, told.unwrap()), (question, expected));
        let other = Answer::Registry(RegistryAnswer::Index(77));
        let other = if matches!(question, Question::Registry(RegistryOp::Put { .. })) {
            Answer::Registry(RegistryAnswer::Done)
        } else {
            other
        };
        for other in [other, Answer::Clock(3), Answer::Each(Vec::new())] {
            let is_clock = matches!(question, Question::Clock(_));
            let is_each = matches!(question, Question::DeleteHosts(_));
            if is_clock && matches!(other, Answer::Clock(_))
                || is_each && matches!(other, Answer::Each(_))
            {
                continue;
            }
            let (_, told) = self.with(Ok(other), &ask);
            assert!(matches!(told, Err(AskError::Unexpected)), "{question:?}: {told:?}");
        }
        let (_, told) = self.with(Err(Fault::NoTask), &ask);
        assert!(matches!(told, Err(AskError::Fault(Fault::NoTask))), "{told:?}");
    }
}

#[test]
fn questions_about_hosts_and_tasks_get_their_answers() {
    let mut asked = Asked::new();
    asked.all(&Question::Hosts, Answer::Hosts(Vec::new()), Vec::new(), Task::hosts);
    let tasks = vec![info(1), info(2)];
    let question = Question::Tasks(Some(host()));
    asked.all(&question, Answer::Tasks(tasks.clone()), tasks, |task| task.tasks(Some(host())));
    let question = Question::Task(peer());
    asked.all(&question, Answer::Tasks(vec![info(9)]), info(9), |task| task.task(peer()));
    let (_, none) = asked.with(Ok(Answer::Tasks(Vec::new())), |task| task.task(peer()));
    assert!(matches!(none, Err(AskError::Unexpected)));
    let spawn = SpawnTasks { program: b"sleep".to_vec(), count: 2, ..SpawnTasks::default() };
    let results = vec![Ok(peer()), Err(Fault::NoTask)];
    let question = Question::Spawn(spawn.clone());
    let answer = Answer::Spawned(results.clone());
    asked.all(&question, answer, results, |task| task.spawn(spawn.clone()));
    let question = Question::Signal { task: peer(), signal: 15 };
    asked.all(&question, Answer::Done, (), |task| task.signal(peer(), 15));
    let question = Question::DeleteHosts(vec![host()]);
    let results = vec![Ok(())];
    let answer = Answer::Each(results.clone());
    asked.all(&question, answer, results, |task| task.delete_hosts(vec![host()]));
    asked.all(&Question::Clock(host()), Answer::Clock(8), 8, |task| task.clock(host()));
    asked.all(&Question::Halt, Answer::Done, (), Task::halt);
}

#[test]
fn questions_about_groups_and_mailboxes_get_their_answers() {
    let mut asked = Asked::new();
    let (done, index) = (|| Answer::Registry(RegistryAnswer::Done), RegistryAnswer::Index);
    let group = || String::from("g");
    let instance = Answer::Registry(RegistryAnswer::Instance(4));
    let question = Question::Registry(RegistryOp::Join(group()));
    asked.all(&question, instance, 4, |task| task.join_group("g"));
    let question = Question::Registry(RegistryOp::Leave(group()));
    asked.all(&question, done(), (), |task| task.leave_group("g"));
    let question = Question::Registry(RegistryOp::Barrier { group: group(), count: 3 });
    asked.all(&question, done(), (), |task| task.group_barrier("g", 3));
    let members = Members { members: vec![None, Some(peer())], version: 5, context: 6 };
    let Members { members: list, version, context } = members.clone();
    let told = || RegistryAnswer::Members { members: list.clone(), version, context };
    let question = Question::Registry(RegistryOp::Members(group()));
    asked.all(&question, Answer::Registry(told()), members.clone(), |t| t.group_members("g"));
    let question = Question::Registry(RegistryOp::Freeze { group: group(), count: 2 });
    asked.all(&question, Answer::Registry(told()), members, |task| task.freeze_group("g", 2));
    let groups = vec![(group(), 2)];
    let answer = Answer::Registry(RegistryAnswer::Groups(groups.clone()));
    asked.all(&Question::Registry(RegistryOp::Groups), answer, groups, Task::groups);
    let rules = MailRules { many: true, ..MailRules::default() };
    let put = RegistryOp::Put { name: group(), index: Some(1), rules, format: 2, content: vec![3] };
    asked.all(&Question::Registry(put), Answer::Registry(index(1)), 1, |task| {
        task.mail_put("g", Some(1), rules, 2, vec![3])
    });
    let get = RegistryOp::Get { name: group(), index: None, from: 1, delete: true, wait: false };
    let mail = Mail { index: 1, owner: Some(peer()), rules, format: 2, content: vec![3] };
    let answer =
        RegistryAnswer::Mail { index: 1, owner: Some(peer()), rules, format: 2, content: vec![3] };
    let question = Question::Registry(get.clone());
    asked.all(&question, Answer::Registry(answer), mail, |task| task.mail_get(get.clone()));
    let question = Question::Registry(RegistryOp::Delete { name: group(), index: 1 });
    asked.all(&question, done(), (), |task| task.mail_delete("g", 1));
    let question = Question::Registry(RegistryOp::Mailboxes { pattern: "g*".into() });
    let answer = Answer::Registry(RegistryAnswer::Mailboxes(Vec::new()));
    asked.all(&question, answer, Vec::new(), |task| task.mailboxes("g*"));
}

#[test]
fn an_answer_that_comes_in_parts_is_put_together_and_taken_once() {
    let Asked { mut task, mut side } = Asked::new();
    let first = task.ask_begin(Question::Tasks(None)).unwrap();
    let second = task.ask_begin(Question::Hosts).unwrap();
    assert_ne!(first, second);
    assert!(task.answer(first).is_none());
    side.say(&ToTask::Part { number: first, tasks: vec![info(1), info(2)] });
    task.poll().unwrap();
    assert!(task.answer(first).is_none(), "not all of it");
    side.say(&ToTask::Part { number: 99, tasks: vec![info(7)] });
    side.say(&ToTask::Answer { number: first, answer: Ok(Answer::Tasks(vec![info(3)])) });
    side.say(&ToTask::Answer { number: 99, answer: Ok(Answer::Done) });
    assert!(task.wait(Some(LONG)).unwrap());
    let whole = vec![info(1), info(2), info(3)];
    assert_eq!(task.answer(first), Some(Ok(Answer::Tasks(whole))));
    assert_eq!(task.answer(first), None);
    assert_eq!(task.answer(99), None, "nobody asked");
    side.say(&ToTask::Answer { number: second, answer: Err(Fault::NoTask) });
    assert!(task.wait(Some(LONG)).unwrap());
    assert_eq!(task.answer(second), Some(Err(Fault::NoTask)));
    // One that is too long is not asked.
    let env = vec![(vec![0; 3 << 20], vec![0; 3 << 20])];
    let long = SpawnTasks { env, ..SpawnTasks::default() };
    let refused = task.spawn(long);
    assert!(matches!(refused, Err(AskError::TooLong { len, limit }) if len > limit));
}

#[test]
fn what_is_watched_is_told_by_its_number_and_output_as_it_is_taken() {
    let Asked { mut task, mut side } = Asked::new();
    let said = |side: &mut Side| match side.hear() {
        Heard::Control(said) => said,
        other => panic!("{other:?}"),
    };
    let one = task.watch(Subject::Host(host())).unwrap();
    assert_eq!(said(&mut side), ToDaemon::Watch { watch: one, subject: Subject::Host(host()) });
    let two = task.watch(Subject::NewHosts).unwrap();
    assert_ne!(one, two);
    said(&mut side);
    task.unwatch(two).unwrap();
    assert_eq!(said(&mut side), ToDaemon::Unwatch { watch: two });
    task.catch_output(true).unwrap();
    assert_eq!(said(&mut side), ToDaemon::CatchOutput(true));
    assert!(task.next_event().is_none());
    let event = WatchEvent::HostGone { host: host(), lost: true };
    side.say(&ToTask::Notice { watch: one, event: event.clone() });
    let (of, stream) = (peer(), Stream::Err);
    side.say(&ToTask::Output { task: of, stream, bytes: b"hello".to_vec() });
    let mut events = Vec::new();
    while events.len() < 2 {
        events.extend(task.next_event());
        if events.is_empty() {
            assert!(task.wait(Some(LONG)).unwrap());
        }
        task.poll().unwrap();
    }
    let expected = [
        Event::Notice { watch: one, event },
        Event::Output { task: of, stream, bytes: b"hello".to_vec() },
    ];
    assert_eq!(events, expected);
    task.catch_output(false).unwrap();
    let heard = [said(&mut side), said(&mut side)];
    assert_eq!(heard, [ToDaemon::OutputCredit(5), ToDaemon::CatchOutput(false)]);
    // The end of the daemon is the last that is told.
    side.say(&ToTask::End("over".into()));
    let told = loop {
        let _ = task.wait(Some(LONG));
        if let Some(event) = task.next_event() {
            break event;
        }
    };
    assert_eq!(told, Event::End("over".into()));
    assert!(matches!(task.catch_output(true), Err(AskError::Lost(_))));
}
