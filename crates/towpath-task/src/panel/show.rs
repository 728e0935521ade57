//! The side that shows.

use std::time::{Duration, Instant};

use towpath_vm::matching::Wanted;
use towpath_vm::panel::{
    Board, BoardError, Counts, PANEL_VERSION, Parameter, ParameterId, Series, SeriesId, TEXT_MAX,
};
use towpath_vm::talk::{Fault, MailRules};
use towpath_wire::TaskId;
use towpath_wire::talk::Tag;

use super::error::PanelError;
use super::place::{FROM_PANELS, MAILBOX, TO_PANELS, look_up, tag_of};
use crate::deadline::Deadline;
use crate::error::{AskError, SendError};
use crate::message::Envelope;
use crate::task::Task;
use crate::team::Team;

/// Messages of followers taken in one go.
const AT_ONCE: usize = 256;
/// Between two looks at what has come otherwise than by shared memory.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Parameters and results of a computation, for others to see and to steer.
///
/// ```no_run
/// use towpath_task::Task;
/// use towpath_task::panel::{Panel, Parameter, Series};
/// let mut task = Task::enrol()?;
/// let mut panel = Panel::new("heat")?;
/// let power = panel.parameter(Parameter::real("power", 1.0).between(0.0, 10.0).unit("W"))?;
/// let hottest = panel.series(Series::curves("hottest", &["inside"]).unit("K").keep(1000))?;
/// panel.show(&mut task)?;
/// for step in 0..1_000_000 {
///     panel.serve(&mut task)?; // here changes come in, and nowhere else
///     let heat = 300.0 + panel.value(power)?; // whatever there is to compute
///     panel.push(&mut task, hottest, f64::from(step), &[heat])?;
/// }
/// panel.finish(&mut task)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Where several tasks compute together, all make the same panel, the first of the team shows it,
/// and all call [`Panel::agree`] where they can take changes: they all have them from there on.
///
/// One that is dropped without [`Panel::finish`] stays listed until its task ends, and answers
/// nobody.
#[derive(Debug)]
pub struct Panel {
    name: String,
    tag: Tag,
    board: Board,
    is_shown: bool,
    /// Values of all parameters when the team last agreed.
    agreed: Vec<f64>,
    looked: Option<Instant>,
}

impl Panel {
    /// A panel of this name, which nobody sees yet.
    pub fn new(name: &str) -> Result<Self, PanelError> {
        if name.is_empty() || name.len() > TEXT_MAX || name.contains('*') {
            let name = name.chars().take(TEXT_MAX).collect();
            return Err(PanelError::Name { name, limit: TEXT_MAX });
        }
        let (name, tag) = (name.to_owned(), tag_of(name));
        Ok(Self {
            name,
            tag,
            board: Board::new(),
            is_shown: false,
            agreed: Vec::new(),
            looked: None,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a parameter: before it is shown.
    pub fn parameter(&mut self, parameter: Parameter) -> Result<ParameterId, BoardError> {
        let value = parameter.value();
        let id = self.board.parameter(parameter)?;
        self.agreed.push(value);
        Ok(id)
    }

    /// Adds a series of results: before it is shown.
    pub fn series(&mut self, series: Series) -> Result<SeriesId, BoardError> {
        self.board.series(series)
    }

    /// All parameters, by number, as they are now.
    pub fn parameters(&self) -> &[Parameter] {
        self.board.parameters()
    }

    /// All series, by number.
    pub fn all_series(&self) -> &[Series] {
        self.board.all_series()
    }

    /// The parameter of this name.
    pub fn parameter_named(&self, name: &str) -> Option<ParameterId> {
        self.board.parameter_named(name)
    }

    /// A parameter's value.
    pub fn value(&self, parameter: ParameterId) -> Result<f64, BoardError> {
        self.board.value(parameter)
    }

    /// Gives a parameter a value from within the program; who follows is told with the next
    /// [`Panel::serve`].
    pub fn set(&mut self, parameter: ParameterId, value: f64) -> Result<(), BoardError> {
        self.board.set(parameter, value)
    }

    /// What was told, lost, set and refused.
    pub const fn counts(&self) -> Counts {
        self.board.counts()
    }

    /// Tasks that follow.
    pub fn followers(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.board.followers()
    }

    /// Makes it known under its name, until [`Panel::finish`] or the task's end.
    pub fn show(&mut self, task: &mut Task) -> Result<(), PanelError> {
        let name = format!("{MAILBOX}{}", self.name);
        // Who has an entry may write it anew: that another panel of this task is shown says only a
        // look.
        match task.mail_get(look_up(&name)) {
            Ok(_) => return Err(PanelError::Shown(self.name.clone())),
            Err(AskError::Fault(Fault::NotFound)) => {}
            Err(other) => return Err(other.into()),
        }
        let rules = MailRules::default();
        let content = PANEL_VERSION.to_le_bytes().to_vec();
        match task.mail_put(&name, None, rules, 0, content) {
            Ok(_) => {}
            Err(AskError::Fault(Fault::Exists | Fault::Denied)) => {
                return Err(PanelError::Shown(self.name.clone()));
            }
            Err(other) => return Err(other.into()),
        }
        self.board.show();
        self.is_shown = true;
        Ok(())
    }

    /// Takes what followers ask for, and tells them what there is to tell; how many changes there
    /// were. It never waits for them: what has come otherwise than by shared memory is looked for
    /// once in a millisecond, and a glance at what else there is costs no system call.
    pub fn serve(&mut self, task: &mut Task) -> Result<usize, PanelError> {
        if !self.is_shown {
            return Ok(0);
        }
        let now = Instant::now();
        if self.looked.is_none_or(|last| now - last >= LOOK_EVERY) {
            self.looked = Some(now);
            task.poll()?;
        }
        let wanted = Wanted::any().tag(self.tag).context(TO_PANELS);
        let mut changes = 0;
        for _ in 0..AT_ONCE {
            let Some(message) = task.recv_at_hand(&wanted)? else { break };
            changes += usize::from(self.board.handle(message.src(), message.bytes()));
        }
        let ended: Vec<TaskId> =
            self.board.followers().filter(|id| task.endpoint.has_ended(*id)).collect();
        for id in ended {
            self.board.forget(id);
        }
        self.board.let_in();
        self.tell(task)?;
        Ok(changes)
    }

    /// Sends what followers can take now.
    fn tell(&mut self, task: &mut Task) -> Result<(), PanelError> {
        // Who takes no more now is left for the next time.
        let mut full: Vec<TaskId> = Vec::new();
        while let Some((to, words)) = self.board.next_words(|id| !full.contains(&id)) {
            let envelope = Envelope { tag: self.tag, context: FROM_PANELS, format: 0 };
            match task.try_send(to, envelope, &words) {
                Ok(true) => self.board.sent(to),
                Ok(false) => full.push(to),
                Err(SendError::NoTask(_)) => self.board.forget(to),
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// Adds a point to a series, for those who follow: where it is on the axis, and its values.
    pub fn push(
        &mut self,
        task: &mut Task,
        series: SeriesId,
        at: f64,
        values: &[f64],
    ) -> Result<(), PanelError> {
        self.board.push(series, at, values)?;
        if self.is_shown { self.tell(task) } else { Ok(()) }
    }

    /// Serves followers at the team's first member and gives its values to all: whether any
    /// parameter has another value than when they agreed before. All members call it at the same
    /// place; it costs a broadcast of the parameters.
    pub fn agree(&mut self, task: &mut Task, team: &mut Team) -> Result<bool, PanelError> {
        self.serve(task)?;
        let mut values: Vec<f64> = self.parameters().iter().map(Parameter::value).collect();
        team.broadcast_slice(task, 0, &mut values)?;
        for (number, value) in values.iter().enumerate() {
            self.board.set(ParameterId(number as u16), *value)?;
        }
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let is_new = bits(&values) != bits(&self.agreed);
        self.agreed = values;
        Ok(is_new)
    }

    /// Tells followers that nothing more comes, and takes the name away. They are given `patience`
    /// to take what they were told; who has not is told the end alone. Where the name cannot be
    /// taken away, since no leader is there, it goes with the task: no error.
    pub fn finish_within(&mut self, task: &mut Task, patience: Duration) -> Result<(), PanelError> {
        if !self.is_shown {
            return Ok(());
        }
        match task.mail_delete(&format!("{MAILBOX}{}", self.name), 0) {
            Ok(()) | Err(AskError::Fault(Fault::NotFound | Fault::Frozen(_))) => {}
            Err(other) => return Err(other.into()),
        }
        self.serve(task)?;
        self.board.end();
        let deadline = Deadline::after(Some(patience));
        loop {
            self.looked = None;
            self.serve(task)?;
            if self.board.followers().next().is_none() {
                break;
            }
            if deadline.is_over() {
                self.end_now(task);
                break;
            }
            task.wait(Some(10 * LOOK_EVERY))?;
        }
        self.is_shown = false;
        Ok(())
    }

    /// The end alone, which waits in the task where a follower does not take it.
    fn end_now(&mut self, task: &mut Task) {
        self.board.end_now();
        while let Some((to, words)) = self.board.next_words(|_| true) {
            let envelope = Envelope { tag: self.tag, context: FROM_PANELS, format: 0 };
            // Dropped, it goes on. One that ended, or for which there is no place, hears nothing.
            drop(task.start_send_bytes(to, envelope, &words));
            self.board.sent(to);
        }
    }

    /// The same, with a second of patience.
    pub fn finish(&mut self, task: &mut Task) -> Result<(), PanelError> {
        self.finish_within(task, Duration::from_secs(1))
    }
}
