//! Messages as programs see them.

use towpath_io::shared::{TINY_MAX, View};
use towpath_vm::endpoint::{Body, Parcel};
use towpath_vm::matching::{Key, Waiting};
use towpath_wire::TaskId;
use towpath_wire::talk::Tag;

/// What a sender writes on a message beside its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Chosen by the program; what receivers select by.
    pub tag: Tag,
    /// Separates what must not meet; 0 unless a program asks for another. Contexts from
    /// [`towpath_wire::talk::CONTEXT_OWN`] on belong to the library.
    pub context: u32,
    /// Tells the receiver how to read the bytes; means nothing to the library.
    pub format: u32,
}

impl Envelope {
    /// With a tag, in context 0, of format 0.
    pub fn tag(tag: impl Into<Tag>) -> Self {
        Self { tag: tag.into(), context: 0, format: 0 }
    }
}

impl From<Tag> for Envelope {
    fn from(tag: Tag) -> Self {
        Self::tag(tag)
    }
}

impl From<i32> for Envelope {
    fn from(tag: i32) -> Self {
        Self::tag(tag)
    }
}

/// What is known of a message beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub src: TaskId,
    /// As sent.
    pub tag: Tag,
    /// As sent.
    pub context: u32,
    /// As sent.
    pub format: u32,
    /// Its bytes.
    pub len: usize,
}

/// A message that waits, shown to a match function ([`crate::Task::recv_by`]).
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Who sent it, tag, context, format and length.
    pub about: Received,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A received message. A long one of a task on the same host stands in its sender's memory: it is
/// to be read before this task leaves or is dropped, after which the sender may write something
/// else there; it may be dropped at any time.
#[derive(Debug)]
pub struct Message {
    about: Received,
    content: Content,
}

/// Short messages stand as well aligned as allocated ones: programs read numbers there.
#[derive(Debug)]
#[repr(align(16))]
struct Tiny([u8; TINY_MAX]);

/// Where a received message's bytes are.
#[derive(Debug)]
enum Content {
    /// Here: nothing is allocated for them.
    Tiny(Tiny),
    There(Body<Far>),
}

/// Where the bytes of a message are that came by another route than the daemons'.
pub(crate) type Far = View;

pub(crate) fn about(waiting: &Waiting<Parcel<Far>>) -> Received {
    let Key { source, tag, context } = waiting.key;
    let len = usize::try_from(waiting.bytes).expect("a message's bytes are in memory");
    Received { src: source, tag, context, format: waiting.payload.format, len }
}

pub(crate) fn bytes(body: &Body<Far>) -> &[u8] {
    match body {
        Body::Own(bytes) => bytes,
        Body::Route(view) => view.bytes().expect("only whole messages wait"),
    }
}

impl Message {
    pub(crate) const fn received(about: Received, body: Body<Far>) -> Self {
        Self { about, content: Content::There(body) }
    }

    /// A message of at most [`TINY_MAX`] bytes, which `fill` fills in.
    #[inline]
    pub(crate) fn tiny(about: Received, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = [0; TINY_MAX];
        fill(&mut bytes[..about.len]);
        Self { about, content: Content::Tiny(Tiny(bytes)) }
    }

    pub(crate) fn new(waiting: Waiting<Parcel<Far>>) -> Self {
        Self::received(about(&waiting), waiting.payload.body)
    }

    /// Who sent it, its tag, context, format and length.
    pub const fn about(&self) -> Received {
        self.about
    }

    /// Who sent it.
    pub const fn src(&self) -> TaskId {
        self.about.src
    }

    /// Its tag.
    pub const fn tag(&self) -> Tag {
        self.about.tag
    }

    /// Its context.
    pub const fn context(&self) -> u32 {
        self.about.context
    }

    /// How its sender says that its bytes are to be read.
    pub const fn format(&self) -> u32 {
        self.about.format
    }

    /// Number of its bytes.
    pub const fn len(&self) -> usize {
        self.about.len
    }

    /// True when it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.about.len == 0
    }

    /// Its bytes, where they are.
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Tiny(Tiny(bytes)) => &bytes[..self.about.len],
            Content::There(body) => bytes(body),
        }
    }

    /// Its bytes as the caller's own.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.content {
            Content::There(Body::Own(bytes)) => bytes,
            _ => self.bytes().to_vec(),
        }
    }
}

/// What a match function says to a waiting message ([`crate::Task::recv_by`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Not this one.
    Skip,
    /// This one; no other is looked at.
    Take,
    /// This one, unless another has a higher rank.
    Rank(u32),
}
