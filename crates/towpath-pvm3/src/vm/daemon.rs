//! A daemon, played by a test: it has hosts, gives the answers that it was told to give, and keeps
//! what its task says.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use towpath_task::{
    Answer, Fault, Host, HostId, HostState, Question, RegistryAnswer, Subject, Task, TaskId,
};
use towpath_vm::talk::{ToDaemon, ToTask, Welcome, decode, encode};
use towpath_wire::talk::{FRAME_HEAD_LEN, FrameHead, FrameKind, HEADER_LEN, Header};

/// What is kept of what a task says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    Control(ToDaemon),
    Data(Header, Vec<u8>),
    /// To several tasks at once, as it stands in the frame.
    Many(Vec<u8>),
}

#[derive(Default)]
struct State {
    hosts: Vec<Host>,
    /// What comes next, of questions that are not about hosts.
    answers: VecDeque<Result<Answer, Fault>>,
    said: Vec<Said>,
    /// Told as soon as they are watched.
    ended: Vec<ToTask>,
}

/// The daemon's side.
pub(super) struct Daemon {
    state: Arc<Mutex<State>>,
    stream: UnixStream,
}

/// A life of the host in a slot.
pub(super) fn host_id(slot: u16, life: u32) -> HostId {
    HostId::new(slot, life).unwrap()
}

pub(super) fn task_id(slot: u16, number: u32) -> TaskId {
    host_id(slot, 1).task(number).unwrap()
}

pub(super) fn host(id: HostId, name: &str, arch: &str) -> Host {
    Host {
        id,
        name: name.into(),
        addr: "127.0.0.1:7".parse().unwrap(),
        key: [id.slot() as u8; 32],
        arch: arch.into(),
        speed: 1000 + u32::from(id.slot()),
        cpus: 1,
        slots: 1,
        state: HostState::Up,
        fields: towpath_vm::Fields::default(),
    }
}

pub(super) fn welcome(you: TaskId) -> Welcome {
    let (siblings, ask_first) = (Vec::new(), Vec::new());
    Welcome { you, parent: None, siblings, context: 0, segment_bytes: 0, ask_first }
}

/// A task, and its daemon, which has a host `one` and a host `two`.
pub(super) fn enrolled(welcome: Welcome) -> (Task, Daemon) {
    let folder = tempfile::Builder::new().prefix("tp").tempdir().unwrap();
    let path = folder.path().join("task.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let hosts = vec![
        host(host_id(1, 1), "one", "x86_64-linux"),
        host(host_id(2, 1), "two", "aarch64-linux"),
    ];
    let state = Arc::new(Mutex::new(State { hosts, ..State::default() }));
    let (served, (came, there)) = (state.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        came.send(stream.try_clone().unwrap()).unwrap();
        let Some(Said::Control(ToDaemon::Enrol(_))) = next(&mut stream) else {
            panic!("no enrolment")
        };
        say(&stream, &ToTask::Welcome(welcome));
        while let Some(said) = next(&mut stream) {
            let mut state = served.lock().unwrap();
            if let Said::Control(control) = &said {
                react(&stream, &mut state, control);
            }
            state.said.push(said);
        }
    });
    let task = Task::enrol_at(&path, None).unwrap();
    (task, Daemon { state, stream: there.recv().unwrap() })
}

fn react(stream: &UnixStream, state: &mut State, said: &ToDaemon) {
    match said {
        ToDaemon::Ask { number, question } => {
            let answer = match question {
                Question::Hosts => Ok(Answer::Hosts(state.hosts.clone())),
                _ => state.answers.pop_front().unwrap_or(Err(Fault::NotJoined)),
            };
            say(stream, &ToTask::Answer { number: *number, answer });
        }
        ToDaemon::Direct { peer } => say(stream, &ToTask::NoDirect { peer: *peer }),
        ToDaemon::Watch { watch, subject: Subject::Task(_) } => {
            for mut notice in state.ended.drain(..) {
                if let ToTask::Notice { watch: number, .. } = &mut notice {
                    *number = *watch;
                }
                say(stream, &notice);
            }
        }
        _ => {}
    }
}

fn say(mut stream: &UnixStream, say: &ToTask) {
    let body = encode(say, Vec::new());
    let head = FrameHead { kind: FrameKind::Control, len: body.len() }.emit();
    // A task that has left hears nothing.
    let _ = stream.write_all(&[&head[..], &body].concat());
}

fn next(stream: &mut UnixStream) -> Option<Said> {
    let mut head = [0; FRAME_HEAD_LEN];
    stream.read_exact(&mut head).ok()?;
    let head = FrameHead::parse(&head).unwrap();
    let mut body = vec![0; head.len];
    stream.read_exact(&mut body).ok()?;
    Some(match head.kind {
        FrameKind::Control => Said::Control(decode(&body).unwrap()),
        FrameKind::Data => {
            let (header, payload) = body.split_first_chunk::<HEADER_LEN>().unwrap();
            Said::Data(Header::parse(header).unwrap(), payload.to_vec())
        }
        _ => Said::Many(body),
    })
}

impl Daemon {
    pub(super) fn say(&self, control: &ToTask) {
        say(&self.stream, control);
    }

    /// A message for the task, in one piece.
    pub(super) fn deliver(&self, header: Header, body: &[u8]) {
        let header = Header { total: body.len() as u64, offset: 0, ..header };
        let whole = [&header.emit()[..], body].concat();
        let head = FrameHead { kind: FrameKind::Data, len: whole.len() }.emit();
        (&self.stream).write_all(&[&head[..], &whole].concat()).unwrap();
    }

    pub(super) fn hosts(&self, hosts: Vec<Host>) {
        self.state.lock().unwrap().hosts = hosts;
    }

    /// What it will answer.
    pub(super) fn answers(&self, answer: Result<Answer, Fault>) {
        self.state.lock().unwrap().answers.push_back(answer);
    }

    pub(super) fn answers_of_registry(&self, answer: RegistryAnswer) {
        self.answers(Ok(Answer::Registry(answer)));
    }

    /// A notice about the next task that is watched.
    pub(super) fn ended(&self, notice: ToTask) {
        self.state.lock().unwrap().ended.push(notice);
    }

    /// What the task has said since it was asked last. What stands in a question was read before
    /// the question was answered.
    pub(super) fn said(&self) -> Vec<Said> {
        std::mem::take(&mut self.state.lock().unwrap().said)
    }

    /// The questions among it, but for those about hosts.
    pub(super) fn asked(&self) -> Vec<Question> {
        let question = |said| match said {
            Said::Control(ToDaemon::Ask { question: Question::Hosts, .. }) => None,
            Said::Control(ToDaemon::Ask { question, .. }) => Some(question),
            _ => None,
        };
        self.said().into_iter().filter_map(question).collect()
    }

    /// The next of what the task said that is not a question.
    pub(super) fn heard(&self) -> Said {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let mut state = self.state.lock().unwrap();
            let is_it = |said: &Said| match said {
                Said::Control(ToDaemon::Ask { .. } | ToDaemon::Direct { .. }) => false,
                Said::Control(_) | Said::Data(..) | Said::Many(_) => true,
            };
            if let Some(at) = state.said.iter().position(is_it) {
                return state.said.remove(at);
            }
            drop(state);
            assert!(std::time::Instant::now() < end, "nothing was said");
            std::thread::yield_now();
        }
    }
}
