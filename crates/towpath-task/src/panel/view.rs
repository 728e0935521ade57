//! The side that looks on, and steers.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use towpath_vm::matching::Wanted;
use towpath_vm::panel::{
    Misfit, OverWhy, PANEL_VERSION, Parameter, ROOM, Series, TEXT_MAX, Told, Viewed,
};
use towpath_vm::talk::Fault;
use towpath_wire::TaskId;
use towpath_wire::talk::Tag;

use super::error::PanelError;
use super::place::{FROM_PANELS, MAILBOX, TO_PANELS, look_up, tag_of};
use crate::deadline::Deadline;
use crate::error::{AskError, SendError};
use crate::message::{Envelope, Message};
use crate::task::Task;

/// How long a panel's task has to answer: it does so only where its program says.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a panel's last word is waited for.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// What may come while an answer is waited for: more than goes into the room of a panel that keeps
/// to it.
const WAITING_MAX: usize = 1 << 20;

/// What a wait for the panel's next message brought.
enum Came {
    /// None in time.
    Late,
    /// One that tells nothing.
    Nothing,
    Told(Told),
}

/// Names of all panels that are shown now, with the tasks that show them.
pub fn panels(task: &mut Task) -> Result<Vec<(String, TaskId)>, PanelError> {
    let boxes = task.mailboxes(&format!("{MAILBOX}*"))?;
    let named = |mailbox: &towpath_vm::talk::Mailbox| {
        let name = mailbox.name.strip_prefix(MAILBOX)?.to_owned();
        Some((name, mailbox.entries.first()?.1?))
    };
    Ok(boxes.iter().filter_map(named).collect())
}

/// A panel of another task, as this task was told of it; a task has one view of a panel at a time.
///
/// ```no_run
/// use towpath_task::Task;
/// use towpath_task::panel::{Told, View};
/// let mut task = Task::enrol()?;
/// let mut view = View::open(&mut task, "heat")?;
/// view.set(&mut task, "power", 2.5)?;
/// while let Some(told) = view.next(&mut task, None)? {
///     match told {
///         Told::Point(point) => println!("{} at {}", point.values[0], point.at),
///         Told::Over(_) => break,
///         _ => {}
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Closed by [`View::close`]; one that is only dropped, or whose task takes nothing any more,
/// costs the panel [`ROOM`] bytes until its task ends.
#[derive(Debug)]
pub struct View {
    name: String,
    panel: TaskId,
    tag: Tag,
    viewed: Viewed,
    /// Came while an answer was waited for. Bounded by the room, since none of it counts as taken.
    waiting: VecDeque<Told>,
    has_ended: Arc<AtomicBool>,
    over: Option<OverWhy>,
}

impl View {
    /// Begins to follow the panel of this name; waits at most ten seconds for its answer.
    pub fn open(task: &mut Task, name: &str) -> Result<Self, PanelError> {
        Self::open_within(task, name, PATIENCE)
    }

    /// The same with other patience.
    pub fn open_within(
        task: &mut Task,
        name: &str,
        patience: Duration,
    ) -> Result<Self, PanelError> {
        let none = || PanelError::None(name.chars().take(TEXT_MAX).collect());
        if name.is_empty() || name.len() > TEXT_MAX || name.contains('*') {
            return Err(none());
        }
        let mail = match task.mail_get(look_up(&format!("{MAILBOX}{name}"))) {
            Ok(mail) => mail,
            Err(AskError::Fault(Fault::NotFound)) => return Err(none()),
            Err(other) => return Err(other.into()),
        };
        let panel = mail.owner.ok_or_else(none)?;
        let theirs = mail.content.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if theirs != PANEL_VERSION {
            let name = name.to_owned();
            return Err(PanelError::Version { name, theirs, ours: PANEL_VERSION });
        }
        let has_ended = task.watch_member(panel)?;
        let nonce = RandomState::new().build_hasher().finish();
        let (viewed, first) = Viewed::begin(nonce, ROOM);
        let mut view = Self {
            name: name.to_owned(),
            panel,
            tag: tag_of(name),
            viewed,
            waiting: VecDeque::new(),
            has_ended,
            over: None,
        };
        view.say(task, &first)?;
        let deadline = Deadline::after(Some(patience));
        while !view.viewed.is_shown() {
            if matches!(view.take(task, deadline)?, Came::Late) {
                // Else it would be told everything, once there is an answer.
                view.say(task, &view.viewed.close())?;
                return Err(PanelError::Silent { task: panel, after: patience });
            }
        }
        Ok(view)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The task that shows it.
    pub const fn panel(&self) -> TaskId {
        self.panel
    }

    /// All parameters, by number, as they were last told.
    pub fn parameters(&self) -> &[Parameter] {
        self.viewed.parameters()
    }

    /// All series, by number.
    pub fn series(&self) -> &[Series] {
        self.viewed.series()
    }

    /// Whether this task was told all that the series had kept when it began to follow.
    pub fn has_kept(&self) -> bool {
        self.viewed.has_kept() && self.waiting.is_empty()
    }

    fn say(&self, task: &mut Task, words: &[u8]) -> Result<(), PanelError> {
        let envelope = Envelope { tag: self.tag, context: TO_PANELS, format: 0 };
        match task.send_with(self.panel, envelope, words) {
            Err(SendError::NoTask(task)) => Err(PanelError::Ended(task)),
            other => Ok(other?),
        }
    }

    /// Takes the next message.
    fn take(&mut self, task: &mut Task, deadline: Deadline) -> Result<Came, PanelError> {
        let wanted = Wanted::any().from(self.panel).tag(self.tag).context(FROM_PANELS);
        task.waits.awaited = Some(self.panel);
        let over = Arc::clone(&self.has_ended);
        let panel = self.panel;
        let came = task.wait_for(deadline, &mut |task| {
            if let Some(waiting) = task.endpoint.take(&wanted) {
                return Some(Some(Message::new(waiting)));
            }
            let has_ended = over.load(Ordering::Relaxed) || task.endpoint.has_ended(panel);
            has_ended.then_some(None)
        })?;
        let Some(came) = came else { return Ok(Came::Late) };
        let message = came.ok_or(PanelError::Ended(self.panel))?;
        match self.viewed.handle(message.bytes()) {
            Ok(None) => Ok(Came::Nothing),
            Ok(Some(told)) => {
                if let Told::Over(why) = told {
                    self.over = Some(why);
                }
                Ok(Came::Told(told))
            }
            Err(Misfit::Refused(why)) => Err(why.into()),
            Err(why) => Err(PanelError::Nonsense { task: self.panel, why }),
        }
    }

    /// What there is to tell next; `None`: nothing within `timeout` (none: however long it takes).
    /// After [`Told::Over`] nothing else comes.
    pub fn next(
        &mut self,
        task: &mut Task,
        timeout: Option<Duration>,
    ) -> Result<Option<Told>, PanelError> {
        if let Some(told) = self.waiting.pop_front() {
            return Ok(Some(told));
        }
        if let Some(why) = self.over {
            return Ok(Some(Told::Over(why)));
        }
        if let Some(owed) = self.viewed.owed() {
            self.say(task, &owed)?;
        }
        let deadline = Deadline::after(timeout);
        loop {
            match self.take(task, deadline)? {
                Came::Late => return Ok(None),
                Came::Told(told) => return Ok(Some(told)),
                Came::Nothing => {}
            }
        }
    }

    /// Gives a parameter another value, and waits until its task says that it has it; at most ten
    /// seconds, after which it may still get it.
    pub fn set(&mut self, task: &mut Task, name: &str, value: f64) -> Result<(), PanelError> {
        self.set_within(task, name, value, PATIENCE)
    }

    /// The same with other patience.
    pub fn set_within(
        &mut self,
        task: &mut Task,
        name: &str,
        value: f64,
        patience: Duration,
    ) -> Result<(), PanelError> {
        let number = self.number_of(name)?;
        self.parameters()[usize::from(number)].check(value)?;
        self.is_told()?;
        let (asked, words) = self.viewed.set(number, value);
        self.say(task, &words)?;
        let deadline = Deadline::after(Some(patience));
        loop {
            match self.take(task, deadline)? {
                Came::Late => {
                    return Err(PanelError::Silent { task: self.panel, after: patience });
                }
                Came::Told(Told::Answer { question, outcome }) if question == asked => {
                    return outcome.map_err(PanelError::Denied);
                }
                Came::Told(told) => {
                    if self.waiting.len() >= WAITING_MAX {
                        let why = Misfit::Malformed(self.waiting.len());
                        return Err(PanelError::Nonsense { task: self.panel, why });
                    }
                    self.waiting.push_back(told);
                    self.is_told()?;
                }
                Came::Nothing => {}
            }
        }
    }

    /// A value for a parameter as people write it: `0.4`, `on`, the name of a choice.
    pub fn read(&self, name: &str, text: &str) -> Result<f64, PanelError> {
        let number = self.number_of(name)?;
        Ok(self.parameters()[usize::from(number)].read(text)?)
    }

    fn is_told(&self) -> Result<(), PanelError> {
        match self.over {
            Some(why) => Err(PanelError::Over { name: self.name.clone(), why }),
            None => Ok(()),
        }
    }

    fn number_of(&self, name: &str) -> Result<u16, PanelError> {
        self.viewed.parameter_named(name).ok_or_else(|| {
            let all: Vec<&str> = self.parameters().iter().map(Parameter::name).collect();
            let there = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            let name = name.chars().take(TEXT_MAX).collect();
            PanelError::NoParameter { panel: self.name.clone(), name, there }
        })
    }

    /// Wants to be told no more. What was on its way is dropped. Waits at most a second for the
    /// panel's word; after that it comes to nobody.
    pub fn close(mut self, task: &mut Task) -> Result<(), PanelError> {
        if self.over.is_some() {
            return Ok(());
        }
        let mut said = self.say(task, &self.viewed.close()).map(|()| Came::Nothing);
        let deadline = Deadline::after(Some(CLOSE_PATIENCE));
        while self.over.is_none() {
            match said {
                Ok(Came::Told(_) | Came::Nothing) => {}
                Ok(Came::Late) | Err(PanelError::Ended(_)) => break,
                Err(other) => return Err(other),
            }
            said = self.take(task, deadline);
        }
        Ok(())
    }
}
