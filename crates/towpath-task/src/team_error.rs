//! Why an operation of a team failed.

use towpath_vm::collective::{CollectiveError, OperatorError, StartError};

use crate::error::{AskError, RecvError, SendError};
use crate::pending::STARTED_MAX;
use crate::plain::ContentError;

/// Why members did not do something together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// This task is not among the members, or there are too many.
    #[error("no team: {0}")]
    Members(#[from] towpath_vm::collective::TeamError),
    /// A member has ended before the team was there, or is named twice.
    #[error("no team of {size}: instance {instance} is missing")]
    Hole {
        /// The instance number.
        instance: usize,
        /// Members wanted.
        size: usize,
    },
    /// What was asked for cannot be.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A member has ended, or the members do not agree.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The group could not be made.
    #[error(transparent)]
    Group(#[from] AskError),
    /// Too much has been started and is not over, or not asked for.
    #[error("{STARTED_MAX} operations of this team are under way, the most there may be")]
    Started,
    /// The operation is not one of this team's.
    #[error("the operation was started by another team")]
    Foreign,
    /// The members' arrays are not as long as they must be for each other.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// Its functions are not defined for such values.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// Nothing can be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Nothing can be received.
    #[error(transparent)]
    Recv(#[from] RecvError),
}
