//! Sending.

use std::collections::HashSet;
use std::io::IoSlice;
use std::sync::Arc;

use towpath_io::shared::Frozen;
use towpath_vm::account::Account;
use towpath_vm::endpoint::charge;
use towpath_vm::talk::{ToDaemon, encode};
use towpath_wire::TaskId;
use towpath_wire::talk::{
    FRAME_HEAD_LEN, FrameHead, FrameKind, HEADER_LEN, Header, Lent, MULTICAST_MAX, Tag,
};

use crate::deadline::Deadline;
use crate::error::{Lost, SendError};
use crate::loan::Sealed;
use crate::message::Envelope;
use crate::task::Task;

/// Parts of one frame beside its front; what has more is copied together first.
pub(crate) const PARTS_MAX: usize = 16;
/// Charged bytes that go out unasked before a look at what the daemon says.
const UNASKED_UNSEEN: u64 = 64 << 10;

/// Shorter payloads go to the daemon through the socket, longer ones through the arena: a socket's
/// buffers are memory that is new each time.
const LEND_MIN: usize = 16 << 10;
/// Pieces lent to the daemon at once at most: what fits into a processor's own cache.
pub(crate) const LENT_MAX: usize = 8;

/// A receiver of a multicast: the number of the message for it (taken once something went out),
/// and how much of it went out.
struct Cursor {
    to: TaskId,
    seq: u32,
    offset: u64,
    done: bool,
}

impl Task {
    /// Sends `bytes` to `to`, in context 0. Returns once they may be reused; waits while the
    /// receiver does not take more, taking in what comes to this task meanwhile.
    #[inline]
    pub fn send(&mut self, to: TaskId, tag: impl Into<Tag>, bytes: &[u8]) -> Result<(), SendError> {
        self.send_with(to, Envelope::tag(tag), bytes)
    }

    /// [`Task::send`] with a context and a format.
    #[inline]
    pub fn send_with(
        &mut self,
        to: TaskId,
        envelope: Envelope,
        bytes: &[u8],
    ) -> Result<(), SendError> {
        let Envelope { tag, context, format } = envelope;
        if self.by_open_ring(to, tag, [context, format], bytes) {
            return Ok(());
        }
        self.send_parts(to, envelope, &[bytes])
    }

    /// Sends several pieces of memory as one message.
    pub fn send_parts(
        &mut self,
        to: TaskId,
        envelope: Envelope,
        parts: &[&[u8]],
    ) -> Result<(), SendError> {
        self.check()?;
        if to == self.id() {
            self.counts.own += 1;
            self.put_local(to, envelope, parts.concat());
            return Ok(());
        }
        if self.started.has_queued() {
            self.wait_for_queued(&[to])?;
        }
        if self.by_ring(to, envelope, parts)? {
            return Ok(());
        }
        let (whole, one);
        let parts = if parts.len() > PARTS_MAX {
            whole = parts.concat();
            one = [&whole[..]];
            &one
        } else {
            parts
        };
        self.wait_for_stragglers(&[to])?;
        let mut header = self.header(to, envelope, parts);
        let mut sent = self.by_stream(&mut header, parts);
        if matches!(sent, Err(SendError::Full(_))) && left(&header) > 0 && self.has_begun(&header) {
            // Its receiver must not see the rest before the beginning: both go by the daemons.
            self.end_stream(to);
        }
        if matches!(sent, Ok(false)) {
            self.counts.daemon += 1;
            self.count(to, Account::BY_DAEMONS, header.total as usize);
            sent = self.by_daemon(&mut header, parts).map(|()| true);
        }
        match sent {
            Err(SendError::Full(_)) if self.has_begun(&header) => {
                self.finish_later(&[header], parts);
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Puts a message among this task's own waiting ones, seen as sent by `src`.
    pub fn post(&mut self, src: TaskId, envelope: Envelope, bytes: Vec<u8>) {
        self.put_local(src, envelope, bytes);
    }

    /// The header of the next message to `dst`. Its number is taken when its first piece goes out
    /// ([`Task::begin`]): a send that fails before leaves no gap in the pair's order.
    pub(crate) fn header(&mut self, dst: TaskId, envelope: Envelope, parts: &[&[u8]]) -> Header {
        let Envelope { tag, context, format } = envelope;
        let total = parts.iter().map(|p| p.len() as u64).sum();
        let seq = self.endpoint.next_number(dst);
        Header { src: self.id(), dst, tag, context, seq, format, total, offset: 0 }
    }

    /// A piece of the message goes out.
    pub(crate) fn begin(&mut self, dst: TaskId, seq: u32) {
        if self.endpoint.next_number(dst) == seq {
            self.endpoint.take_number(dst);
        }
    }

    /// Whether a piece of the message went out.
    pub(crate) fn has_begun(&mut self, header: &Header) -> bool {
        self.endpoint.next_number(header.dst) != header.seq
    }

    /// Keeps what is left of the same message to several tasks, for the daemons to take when
    /// they can. Nothing else is sent to those tasks before.
    pub(crate) fn finish_later(&mut self, headers: &[Header], parts: &[&[u8]]) {
        let Some(from) = headers.iter().map(|header| header.offset).min() else { return };
        let bytes: Arc<[u8]> = parts.concat()[from as usize..].into();
        for header in headers {
            let begun = self.has_begun(header);
            if !begun || left(header) > 0 {
                self.begin(header.dst, header.seq);
                self.routes.keep(*header, Arc::clone(&bytes), from);
            }
        }
    }

    /// Sends a message, from `header.offset` on, through the daemons, after what a stream left.
    fn by_daemon(&mut self, header: &mut Header, parts: &[&[u8]]) -> Result<(), SendError> {
        self.wait_for_stragglers(&[header.dst])?;
        let sent = self.by_pieces(header, parts);
        self.sending.half.clear();
        sent
    }

    /// Waits until nothing of a broken stream to any of these is left.
    fn wait_for_stragglers(&mut self, to: &[TaskId]) -> Result<(), SendError> {
        while to.iter().any(|peer| self.is_behind(*peer)) {
            self.wait_for(Deadline::NEVER, &mut |task| {
                to.iter().all(|peer| !task.is_behind(*peer)).then_some(())
            })?;
        }
        Ok(())
    }

    /// Sends a message through the daemons, piece by piece as there is credit.
    fn by_pieces(&mut self, header: &mut Header, parts: &[&[u8]]) -> Result<(), SendError> {
        let dst = header.dst;
        self.sending.half.push(dst);
        loop {
            let left = left(header);
            if left >= LEND_MIN && self.sending.lent.len() >= LENT_MAX {
                self.wait_for(Deadline::NEVER, &mut |task| {
                    (task.sending.lent.len() < LENT_MAX).then_some(())
                })?;
            }
            let piece = self.wait_for_credit([(dst, left)].into_iter(), &mut |task| {
                if task.endpoint.has_ended(dst) {
                    return Some(Err(SendError::NoTask(dst)));
                }
                task.endpoint.room(dst, left).map(Ok)
            })??;
            self.begin(dst, header.seq);
            self.endpoint.wrote(dst, piece);
            self.write_one(header, parts, piece)?;
            header.offset += piece as u64;
            if header.offset == header.total {
                return Ok(());
            }
        }
    }

    /// Writes a piece for one receiver. A long one stands in the arena, if that has room.
    fn write_one(&mut self, header: &Header, parts: &[&[u8]], piece: usize) -> Result<(), Lost> {
        let at = header.offset as usize;
        if piece >= LEND_MIN
            && let Some(block) = self.lend(parts, at, piece)
        {
            let lent = Lent { page: block.page() as u32, len: piece as u32 };
            let mut frame = [0; FRAME_HEAD_LEN + HEADER_LEN + Lent::LEN];
            let head = FrameHead { kind: FrameKind::Lent, len: HEADER_LEN + Lent::LEN };
            frame[..FRAME_HEAD_LEN].copy_from_slice(&head.emit());
            frame[FRAME_HEAD_LEN..][..HEADER_LEN].copy_from_slice(&header.emit());
            frame[FRAME_HEAD_LEN + HEADER_LEN..].copy_from_slice(&lent.emit());
            self.sending.lent.push_back(block);
            return self.write_piece(&frame, &[], 0, 0);
        }
        let mut front = [0; FRAME_HEAD_LEN + HEADER_LEN];
        let head = FrameHead { kind: FrameKind::Data, len: HEADER_LEN + piece };
        front[..FRAME_HEAD_LEN].copy_from_slice(&head.emit());
        front[FRAME_HEAD_LEN..].copy_from_slice(&header.emit());
        self.write_piece(&front, parts, at, piece)
    }

    /// Bytes `at..at + len` of the parts in a block that the daemon may read.
    fn lend(&self, parts: &[&[u8]], at: usize, len: usize) -> Option<Frozen> {
        let mut block = self.home.as_ref()?.arena().alloc(len).ok()?;
        let (mut room, mut to) = ([&[][..]; PARTS_MAX], 0);
        for part in cut(parts, at, len, &mut room) {
            block.write(to, part);
            to += part.len();
        }
        Some(block.freeze())
    }

    /// Sends a message to several tasks, to each once; each of their hosts gets it once. Tasks
    /// that have ended are left out. A receiver that takes more slowly than others holds up this
    /// call, but not what goes to the others. Where it fails with [`SendError::Full`], none of
    /// them gets it; where this task is full when some have it, the others get it later.
    pub fn multicast(
        &mut self,
        to: &[TaskId],
        envelope: Envelope,
        parts: &[&[u8]],
    ) -> Result<(), SendError> {
        if parts.len() > PARTS_MAX {
            return self.multicast_of(to, envelope, &[&parts.concat()], None);
        }
        self.multicast_of(to, envelope, parts, None)
    }

    /// Sends a loan that is written to several tasks; it stays.
    pub(crate) fn multicast_sealed(
        &mut self,
        to: &[TaskId],
        envelope: Envelope,
        sealed: &Sealed,
    ) -> Result<(), SendError> {
        let block = self.block_of(sealed).cloned();
        self.multicast_of(to, envelope, &[sealed], block)
    }

    /// `block`: where `parts` stand already.
    fn multicast_of(
        &mut self,
        to: &[TaskId],
        envelope: Envelope,
        parts: &[&[u8]],
        block: Option<Frozen>,
    ) -> Result<(), SendError> {
        self.check()?;
        let (count, limit) = (to.len(), MULTICAST_MAX);
        if count > limit {
            return Err(SendError::Receivers { count, limit });
        }
        self.wait_for_queued(to)?;
        self.wait_for_stragglers(to)?;
        self.counts.multicast += 1;
        let mut seen = HashSet::with_capacity(count);
        let mut others: Vec<TaskId> = to.iter().copied().filter(|t| seen.insert(*t)).collect();
        let own = self.id();
        others.retain(|to| *to != own && !self.endpoint.has_ended(*to));
        let near = self.cast_by_rings(&mut others, envelope, parts, block)?;
        let far = self.cast_by_streams(&mut others, envelope, parts)?;
        self.cast_by_daemons(&others, envelope, parts, near || far)?;
        if seen.contains(&own) {
            self.put_local(own, envelope, parts.concat());
        }
        Ok(())
    }

    /// The part of a multicast that goes by the daemons.
    fn cast_by_daemons(
        &mut self,
        to: &[TaskId],
        envelope: Envelope,
        parts: &[&[u8]],
        some_have_it: bool,
    ) -> Result<(), SendError> {
        self.wait_for_stragglers(to)?;
        let Some(first) = to.first() else { return Ok(()) };
        let len = parts.iter().map(|part| part.len()).sum();
        for peer in to {
            self.count(*peer, Account::BY_DAEMONS, len);
        }
        let header = self.header(*first, envelope, parts);
        let mut number =
            |to| Cursor { to, seq: self.endpoint.next_number(to), offset: 0, done: false };
        let mut cursors: Vec<Cursor> = to.iter().map(|to| number(*to)).collect();
        let mut cast = Ok(());
        while !cursors.is_empty() && cast.is_ok() {
            cast = self.cast(header, &mut cursors, parts);
            self.sending.half.clear();
            self.sending.half.extend(cursors.iter().filter(|c| c.offset > 0).map(|c| c.to));
        }
        self.sending.half.clear();
        let begun = cursors.len() < to.len() || cursors.iter().any(|c| c.offset > 0);
        if matches!(cast, Err(SendError::Full(_))) && (some_have_it || begun) {
            let rest = |c: &Cursor| Header { dst: c.to, seq: c.seq, offset: c.offset, ..header };
            let rests: Vec<Header> = cursors.iter().map(rest).collect();
            self.finish_later(&rests, parts);
            return Ok(());
        }
        cast
    }

    /// Sends one piece to all that are equally far and can take it; those that have got
    /// everything, or have ended, leave `cursors`.
    fn cast(
        &mut self,
        mut header: Header,
        cursors: &mut Vec<Cursor>,
        parts: &[&[u8]],
    ) -> Result<(), SendError> {
        let total = header.total;
        let to = cursors.iter().map(|c| (c.to, (total - c.offset) as usize));
        // Whoever is behind goes first, so that they meet again.
        let next = self.wait_for_credit(to, &mut |task| {
            if cursors.iter().any(|c| task.endpoint.has_ended(c.to)) {
                return Some(None);
            }
            let ready = cursors
                .iter()
                .filter(|c| task.endpoint.room(c.to, (total - c.offset) as usize).is_some());
            ready.map(|c| c.offset).min().map(Some)
        })?;
        let Some(offset) = next else {
            cursors.retain(|c| !self.endpoint.has_ended(c.to));
            return Ok(());
        };
        header.offset = offset;
        let left = left(&header);
        let room = |task: &mut Self, c: &Cursor| {
            if c.offset == offset { task.endpoint.room(c.to, left) } else { None }
        };
        let piece = cursors.iter().filter_map(|c| room(self, c)).min().unwrap_or(0);
        let (mut list, mut count) = (Vec::new(), 0_u16);
        for cursor in cursors.iter_mut() {
            if room(self, cursor).is_some() {
                list.extend_from_slice(&cursor.to.to_raw().to_le_bytes());
                list.extend_from_slice(&cursor.seq.to_le_bytes());
                count += 1;
                self.begin(cursor.to, cursor.seq);
                self.endpoint.wrote(cursor.to, piece);
                cursor.offset += piece as u64;
                cursor.done = cursor.offset == header.total;
            }
        }
        let len = size_of_val(&count) + list.len() + HEADER_LEN + piece;
        let mut front = FrameHead { kind: FrameKind::Multicast, len }.emit().to_vec();
        front.extend_from_slice(&count.to_le_bytes());
        front.extend_from_slice(&list);
        front.extend_from_slice(&header.emit());
        self.write_piece(&front, parts, offset as usize, piece)?;
        cursors.retain(|c| !c.done);
        Ok(())
    }

    /// Waits until `found` finds something; before that, says once for each limit of `to`, which
    /// are still to get so many bytes, that there is no credit.
    fn wait_for_credit<T>(
        &mut self,
        to: impl Iterator<Item = (TaskId, usize)>,
        found: &mut dyn FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, SendError> {
        if self.endpoint.unasked() >= self.sending.look_at {
            // Whether a host wants to be asked first is known only to those who look.
            self.sending.look_at = self.endpoint.unasked() + UNASKED_UNSEEN;
            self.look();
            self.read_descriptors()?;
        }
        if let Some(found) = found(self) {
            return Ok(found);
        }
        for (peer, left) in to {
            if self.endpoint.blocked(peer) {
                let need = charge(left);
                self.link.queue(&encode(&ToDaemon::Blocked { peer, need }, Vec::new()));
            }
        }
        let found = self.wait_for(Deadline::NEVER, found)?;
        Ok(found.expect("a wait without end ends with something"))
    }

    /// Writes a frame: its front, then bytes `at..at + len` of the parts one after another.
    fn write_piece(
        &mut self,
        front: &[u8],
        parts: &[&[u8]],
        at: usize,
        len: usize,
    ) -> Result<(), Lost> {
        self.flush()?;
        let mut room = [&[][..]; PARTS_MAX];
        let cut = cut(parts, at, len, &mut room);
        let mut slices = [IoSlice::new(&[]); PARTS_MAX + 1];
        slices[0] = IoSlice::new(front);
        for (slice, part) in slices[1..].iter_mut().zip(cut) {
            *slice = IoSlice::new(part);
        }
        self.write_whole(&slices[..=cut.len()], front.len() + len)?;
        self.flush()
    }
}

/// Bytes `at..at + len` of the parts one after another, in what `room` there is for parts.
pub(crate) fn cut<'a, 'r>(
    parts: &[&'a [u8]],
    at: usize,
    len: usize,
    room: &'r mut [&'a [u8]; PARTS_MAX],
) -> &'r [&'a [u8]] {
    let (mut n, mut skip, mut left) = (0, at, len);
    for part in parts {
        let from = skip.min(part.len());
        skip -= from;
        let taken = &part[from..][..left.min(part.len() - from)];
        left -= taken.len();
        if !taken.is_empty() {
            room[n] = taken;
            n += 1;
        }
    }
    &room[..n]
}

/// Bytes of a message that have not gone out.
fn left(header: &Header) -> usize {
    usize::try_from(header.total - header.offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_cut_out_of_parts() {
        let parts: [&[u8]; 4] = [b"abc", b"", b"de", b"fghi"];
        let whole = b"abcdefghi";
        for at in 0..=9 {
            for len in 0..=9 - at {
                let mut room = [&b""[..]; PARTS_MAX];
                let cut = cut(&parts, at, len, &mut room);
                assert_eq!(cut.concat(), whole[at..at + len], "{len} from {at}");
                assert!(cut.iter().all(|part| !part.is_empty()));
            }
        }
    }

    #[test]
    fn what_has_not_gone_out_is_left() {
        let task = towpath_wire::HostId::new(1, 1).unwrap().task(1).unwrap();
        let (src, dst) = (task, task);
        let header =
            Header { src, dst, tag: 0, context: 0, seq: 0, format: 0, total: 10, offset: 3 };
        assert_eq!(left(&header), 7);
    }
}
