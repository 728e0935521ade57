//! Questions to the virtual machine, and their answers.

use crate::parts::questions::Asked;

use towpath_vm::talk::{Answer, Fault, Question, SpawnTasks, Subject, ToDaemon, encode};
use towpath_vm::{Host, TaskInfo};
use towpath_wire::talk::FRAME_BODY_MAX;
use towpath_wire::{HostId, TaskId};

use crate::deadline::Deadline;
use crate::error::{AskError, RecvError};
use crate::task::Task;

impl From<RecvError> for AskError {
    fn from(e: RecvError) -> Self {
        match e {
            RecvError::Full(full) => Self::Full(full),
            RecvError::Lost(lost) => Self::Lost(lost),
            RecvError::TooLong { .. } | RecvError::Content(_) => {
                unreachable!("only a receive into a buffer says so")
            }
        }
    }
}

impl Task {
    /// Asks, and waits for the answer.
    pub fn ask(&mut self, question: Question) -> Result<Answer, AskError> {
        let number = self.ask_begin(question)?;
        let answer = self.wait_for(Deadline::NEVER, &mut |task| task.answer(number));
        if answer.is_err() {
            // Nobody will take the answer.
            self.questions.open.remove(&number);
        }
        Ok(answer?.expect("a wait without end ends with an answer")?)
    }

    /// Asks; [`Task::answer`] gives the answer to this number once it is there.
    pub fn ask_begin(&mut self, question: Question) -> Result<u64, AskError> {
        self.check()?;
        let number = self.questions.next;
        let body = encode(&ToDaemon::Ask { number, question }, Vec::new());
        let (len, limit) = (body.len(), FRAME_BODY_MAX);
        if len > limit {
            return Err(AskError::TooLong { len, limit });
        }
        self.questions.next += 1;
        self.questions.open.insert(number, Asked::default());
        self.link.queue(&body);
        self.flush()?;
        Ok(number)
    }

    /// The answer to a question, once; `None`: it has not come in yet.
    pub fn answer(&mut self, number: u64) -> Option<Result<Answer, Fault>> {
        self.questions.open.get(&number)?.answer.as_ref()?;
        let Asked { mut tasks, answer } = self.questions.open.remove(&number)?;
        let mut answer = answer?;
        if let Ok(Answer::Tasks(last)) = &mut answer {
            tasks.append(last);
            *last = tasks;
        }
        Some(answer)
    }

    /// Every host.
    pub fn hosts(&mut self) -> Result<Vec<Host>, AskError> {
        match self.ask(Question::Hosts)? {
            Answer::Hosts(hosts) => Ok(hosts),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Tasks of a host, or of all.
    pub fn tasks(&mut self, host: Option<HostId>) -> Result<Vec<TaskInfo>, AskError> {
        match self.ask(Question::Tasks(host))? {
            Answer::Tasks(tasks) => Ok(tasks),
            _ => Err(AskError::Unexpected),
        }
    }

    /// A task that runs; [`Fault::NoTask`] when it does not.
    pub fn task(&mut self, task: TaskId) -> Result<TaskInfo, AskError> {
        match self.ask(Question::Task(task))? {
            Answer::Tasks(mut tasks) => tasks.pop().ok_or(AskError::Unexpected),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Starts tasks; a result for each.
    pub fn spawn(&mut self, tasks: SpawnTasks) -> Result<Vec<Result<TaskId, Fault>>, AskError> {
        match self.ask(Question::Spawn(tasks))? {
            Answer::Spawned(results) => Ok(results),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Sends a signal to a task.
    pub fn signal(&mut self, task: TaskId, signal: i32) -> Result<(), AskError> {
        self.ask_done(Question::Signal { task, signal })
    }

    /// Deletes hosts from the virtual machine; a result for each.
    pub fn delete_hosts(&mut self, hosts: Vec<HostId>) -> Result<Vec<Result<(), Fault>>, AskError> {
        match self.ask(Question::DeleteHosts(hosts))? {
            Answer::Each(results) => Ok(results),
            _ => Err(AskError::Unexpected),
        }
    }

    /// A host's wall clock, in microseconds since 1970.
    pub fn clock(&mut self, host: HostId) -> Result<u64, AskError> {
        match self.ask(Question::Clock(host))? {
            Answer::Clock(us) => Ok(us),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Ends the whole virtual machine, this task included.
    pub fn halt(&mut self) -> Result<(), AskError> {
        self.ask_done(Question::Halt)
    }

    fn ask_done(&mut self, question: Question) -> Result<(), AskError> {
        match self.ask(question)? {
            Answer::Done => Ok(()),
            _ => Err(AskError::Unexpected),
        }
    }

    /// Has this task told of an end or of hosts, by [`crate::Event::Notice`] with the number
    /// given here.
    pub fn watch(&mut self, subject: Subject) -> Result<u64, AskError> {
        self.check()?;
        let watch = self.questions.next;
        self.questions.next += 1;
        self.say(&ToDaemon::Watch { watch, subject })?;
        Ok(watch)
    }

    /// Ends a watch. A notice that is under way may still come.
    pub fn unwatch(&mut self, watch: u64) -> Result<(), AskError> {
        self.check()?;
        Ok(self.say(&ToDaemon::Unwatch { watch })?)
    }

    /// Whether output of tasks spawned from now on comes to this task, as
    /// [`crate::Event::Output`].
    pub fn catch_output(&mut self, on: bool) -> Result<(), AskError> {
        self.check()?;
        Ok(self.say(&ToDaemon::CatchOutput(on))?)
    }
}
