//! Why a panel or a view of one does not work.

use std::time::Duration;

use towpath_vm::panel::{BoardError, Misfit, OverWhy, Refusal, ValueError};
use towpath_wire::TaskId;

use crate::error::{AskError, Full, Lost, RecvError, SendError};
use crate::team_error::TeamError;

/// Why a panel or a view of one does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PanelError {
    /// There is no panel of this name.
    #[error("no panel `{0}`\nhint: `towpath panel` lists those that are shown now")]
    None(String),
    /// Another task shows one of this name, or this task does.
    #[error("a panel `{0}` is shown already\nhint: give this one another name")]
    Shown(String),
    /// The name is empty, longer than may be, or a pattern.
    #[error("panel `{name}`: names have 1 to {limit} bytes, none of them `*`")]
    Name {
        /// The name, cut.
        name: String,
        /// Most bytes.
        limit: usize,
    },
    /// The panel is of another build.
    #[error(
        "panel `{name}` speaks version {theirs}, this program {ours}\nhint: use the same build"
    )]
    Version {
        /// Its name.
        name: String,
        /// What it speaks.
        theirs: u32,
        /// What this program speaks.
        ours: u32,
    },
    /// The panel's task has ended.
    #[error("task {0}, which showed the panel, has ended")]
    Ended(TaskId),
    /// The panel tells this task nothing more, and takes nothing of it.
    #[error("panel `{name}` tells this task no more: {}", match .why {
        OverWhy::Ended => "it has ended",
        OverWhy::CutOff => "the task took too little for too long",
        OverWhy::Asked => "the task wanted so",
    })]
    Over {
        /// Its name.
        name: String,
        /// Why.
        why: OverWhy,
    },
    /// The panel's task has not answered.
    #[error(
        "task {task} has not answered for {} s\n\
         hint: it answers where its program calls serve()",
        .after.as_secs_f64()
    )]
    Silent {
        /// The task.
        task: TaskId,
        /// How long.
        after: Duration,
    },
    /// No such parameter.
    #[error("panel `{panel}` has no parameter `{name}`\nhint: it has {there}")]
    NoParameter {
        /// The panel's name.
        panel: String,
        /// What was looked for.
        name: String,
        /// What there is.
        there: String,
    },
    /// The panel refused a change, and says why.
    #[error("{0}")]
    Denied(String),
    /// The panel takes no more followers.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What was told makes no sense.
    #[error("task {task} shows nonsense: {why}")]
    Nonsense {
        /// The task.
        task: TaskId,
        /// What.
        why: Misfit,
    },
    /// A value that a parameter cannot have.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// What the panel is to have cannot be.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The virtual machine says no.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Nothing can be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Nothing can be received.
    #[error(transparent)]
    Recv(#[from] RecvError),
    /// The members of the team do not agree.
    #[error(transparent)]
    Team(#[from] TeamError),
}

impl From<Lost> for PanelError {
    fn from(lost: Lost) -> Self {
        Self::Recv(lost.into())
    }
}

impl From<Full> for PanelError {
    fn from(full: Full) -> Self {
        Self::Recv(full.into())
    }
}
