//! What a board and its followers say to each other.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use towpath_wire::TaskId;

use super::parameter::Parameter;
use super::series::{Point, Series};
use super::{ROOM_KEPT, ROOM_MAX};

/// From a follower to the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToPanel {
    /// Tell me from now on.
    Follow {
        /// Comes back.
        nonce: u64,
        /// Bytes that may be told before they are taken, at most [`super::ROOM_MAX`].
        room: u64,
    },
    /// So many bytes of what was told are taken.
    Taken {
        /// Bytes of messages.
        bytes: u64,
    },
    /// A parameter is to have another value. Answered once.
    Set {
        /// Comes back in the answer.
        question: u64,
        /// By number.
        parameter: u16,
        /// To be.
        value: f64,
    },
    /// Tell me no more.
    Unfollow,
}

/// Why a board does not let a task follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Others do.
    #[error("it has {0} followers already, which is the limit")]
    Full(u32),
    /// Nothing more comes.
    #[error("it has ended")]
    Ended,
    /// Too much room, or too little.
    #[error("room of {0} bytes: from {least} to {ROOM_MAX}", least = 2 * ROOM_KEPT)]
    Room(u64),
}

/// Why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverWhy {
    /// The panel has ended.
    Ended,
    /// The follower took too little for too long, and something did not fit that it must not miss.
    CutOff,
    /// The follower wanted to be told no more.
    Asked,
}

/// From a board to a follower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromPanel {
    /// What there is, with the values of now.
    Shown {
        /// From the question.
        nonce: u64,
        /// So many points follow that the series have kept.
        kept: u64,
        /// By number.
        parameters: Vec<Parameter>,
        /// By number.
        series: Vec<Series>,
    },
    /// It may not follow.
    Refused {
        /// From the question.
        nonce: u64,
        /// Why.
        why: Refusal,
    },
    /// A parameter has another value.
    Changed {
        /// By number.
        parameter: u16,
        /// From now on.
        value: f64,
        /// Who wanted it; none: the program itself.
        by: Option<TaskId>,
    },
    /// What came of [`ToPanel::Set`].
    Answer {
        /// From the question.
        question: u64,
        /// Why not.
        outcome: Result<(), String>,
    },
    /// A result.
    Point(Point),
    /// Nothing more comes.
    Over(OverWhy),
}
