//! The Unix socket to the daemon: frames out of it, frames into it, descriptors with them.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_peercred};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;
use towpath_io::shared::aside;
use towpath_wire::talk::{FRAME_HEAD_LEN, FrameHead, FrameKind, HEADER_LEN, Header};

use crate::error::Lost;
use crate::place::SOCKET_BUFFER;

/// Room for what is read and not yet taken, in bytes; longer frames make it grow.
const ROOM: usize = 256 << 10;
/// Most descriptors that come with one frame.
const DESCRIPTORS_MAX: usize = 8;

/// What one reading got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Nothing,
    Some,
    /// As much as one call gives: there may be more.
    Full,
}

/// The connection. Invariant: `start` ≤ `end` ≤ `buf.len()`.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Arc<UnixStream>,
    /// Which socket that is, whatever becomes of its number.
    inode: u64,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    descriptors: VecDeque<OwnedFd>,
    /// The kernel said that there is something to read.
    pub(crate) has_more: bool,
    /// Control frames that wait until no other frame is half out.
    queued: Vec<u8>,
    /// Descriptors that go with what is written next.
    handed: Vec<OwnedFd>,
}

fn gone(why: &dyn Display) -> Lost {
    Lost::Daemon(why.to_string())
}

impl Link {
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        // Out of the way of programs that close what they think is theirs.
        let stream = UnixStream::from(aside(UnixStream::connect(path)?.into()));
        let owner = socket_peercred(&stream)?.uid;
        if owner != geteuid() {
            let text = format!("it belongs to another user (user id {})", owner.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        stream.set_nonblocking(true)?;
        // A refusal costs time only.
        let _ = set_socket_send_buffer_size(&stream, SOCKET_BUFFER);
        let (buf, descriptors, queued) = (vec![0; ROOM], VecDeque::new(), Vec::new());
        let (handed, has_more) = (Vec::new(), false);
        let (inode, stream) = (fstat(&stream)?.st_ino, Arc::new(stream));
        Ok(Self { stream, inode, buf, start: 0, end: 0, descriptors, has_more, queued, handed })
    }

    /// False: the program has closed the socket under us. Its number, and those of the library's
    /// other descriptors, may be the program's own by now.
    pub(crate) fn is_ours(&self) -> bool {
        fstat(&self.stream).is_ok_and(|stat| stat.st_ino == self.inode)
    }

    /// The socket is never closed from here.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(Arc::clone(&self.stream));
        std::mem::forget(std::mem::take(&mut self.descriptors));
    }

    /// Reads once.
    pub(crate) fn read(&mut self) -> Result<Got, Lost> {
        self.make_room()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let room = self.buf.len() - self.end;
        let mut into = [IoSliceMut::new(&mut self.buf[self.end..])];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = match recvmsg(&self.stream, &mut into, &mut ancillary, flags) {
            Ok(got) => got.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Got::Nothing),
            Err(e) => return Err(gone(&e)),
        };
        // A call gives nothing that is behind descriptors.
        let mut all = got < room;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.descriptors.extend(fds);
                all = false;
            }
        }
        if got == 0 {
            return Err(gone(&"it has ended the connection"));
        }
        self.end += got;
        Ok(if all { Got::Some } else { Got::Full })
    }

    /// Moves what is left to the front, and grows for a frame that does not fit.
    fn make_room(&mut self) -> Result<(), Lost> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let wanted = self.head()?.map_or(FRAME_HEAD_LEN, |head| FRAME_HEAD_LEN + head.len);
        if self.start + wanted > self.buf.len() || self.end == self.buf.len() {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if wanted > self.buf.len() {
            self.buf.resize(wanted, 0);
        }
        Ok(())
    }

    fn head(&self) -> Result<Option<FrameHead>, Lost> {
        let Some(bytes) = self.buf[self.start..self.end].first_chunk() else { return Ok(None) };
        FrameHead::parse(bytes).map(Some).map_err(|e| gone(&e))
    }

    /// The next whole frame: its kind and where its body is ([`Link::body`]), until the next
    /// call of [`Link::read`].
    pub(crate) fn next_frame(&mut self) -> Result<Option<(FrameKind, Range<usize>)>, Lost> {
        let Some(head) = self.head()? else { return Ok(None) };
        let body = self.start + FRAME_HEAD_LEN..self.start + FRAME_HEAD_LEN + head.len;
        if body.end > self.end {
            return Ok(None);
        }
        self.start = body.end;
        Ok(Some((head.kind, body)))
    }

    pub(crate) fn body(&self, range: Range<usize>) -> &[u8] {
        &self.buf[range]
    }

    /// A descriptor that came with the frame taken last.
    pub(crate) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Queues a control frame with this body.
    pub(crate) fn queue(&mut self, body: &[u8]) {
        let head = FrameHead { kind: FrameKind::Control, len: body.len() };
        self.queued.extend_from_slice(&head.emit());
        self.queued.extend_from_slice(body);
    }

    /// Hands the daemon a descriptor, for a frame that was queued before or is queued next.
    pub(crate) fn hand(&mut self, descriptor: OwnedFd) {
        self.handed.push(descriptor);
    }

    /// Queues a data frame.
    pub(crate) fn queue_data(&mut self, header: &Header, payload: &[u8]) {
        let head = FrameHead { kind: FrameKind::Data, len: HEADER_LEN + payload.len() };
        self.queued.extend_from_slice(&head.emit());
        self.queued.extend_from_slice(&header.emit());
        self.queued.extend_from_slice(payload);
    }

    pub(crate) const fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Takes the queued control frames, to be written.
    pub(crate) fn take_queued(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.queued)
    }

    /// Gives the buffer of written frames back for the next ones.
    pub(crate) fn recycle(&mut self, mut written: Vec<u8>) {
        if self.queued.is_empty() {
            written.clear();
            self.queued = written;
        }
    }

    /// Writes as much of `slices`, from byte `done` on, as the socket takes; how much.
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>], done: usize) -> Result<usize, Lost> {
        const MAX: usize = 32;
        let mut rest = [IoSlice::new(&[]); MAX];
        let (mut n, mut skip) = (0, done);
        for slice in slices {
            if skip >= slice.len() {
                skip -= slice.len();
            } else if n < MAX {
                rest[n] = IoSlice::new(&slice[skip..]);
                (n, skip) = (n + 1, 0);
            }
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let count = self.handed.len().min(DESCRIPTORS_MAX);
        let handed: Vec<BorrowedFd<'_>> = self.handed[..count].iter().map(AsFd::as_fd).collect();
        if !handed.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&handed));
        }
        match sendmsg(&self.stream, &rest[..n], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(written) => {
                self.handed.drain(..count);
                Ok(written)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(e) => Err(gone(&e)),
        }
    }

    /// Waits until the socket can be read or written, as far as `wanted`.
    pub(crate) fn wait(&self, wanted: PollFlags, timeout: Option<&Timespec>) -> Result<(), Lost> {
        let mut fds = [PollFd::new(&self.stream, wanted)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(gone(&e)),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    /// A connection, and the daemon's end of it.
    fn link() -> (Link, UnixStream) {
        let folder = tempfile::Builder::new().prefix("tp").tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let link = Link::connect(&path).unwrap();
        (link, listener.accept().unwrap().0)
    }

    fn frame(len: usize, fill: u8) -> Vec<u8> {
        let head = FrameHead { kind: FrameKind::Control, len }.emit();
        [&head[..], &vec![fill; len]].concat()
    }

    /// The bodies of all frames that are there.
    fn bodies(link: &mut Link) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while let Some((kind, body)) = link.next_frame().unwrap() {
            assert_eq!(kind, FrameKind::Control);
            all.push(link.body(body).to_vec());
        }
        all
    }

    #[test]
    fn frames_are_taken_whole_whatever_the_pieces() {
        let (mut link, mut daemon) = link();
        assert_eq!(link.read().unwrap(), Got::Nothing);
        let all = [frame(3, 1), frame(0, 0), frame(5, 2)].concat();
        let (first, last) = all.split_at(all.len() - 1);
        daemon.write_all(first).unwrap();
        assert_eq!(link.read().unwrap(), Got::Some);
        assert_eq!(bodies(&mut link), [vec![1; 3], vec![]]);
        assert_eq!(bodies(&mut link), Vec::<Vec<u8>>::new());
        daemon.write_all(last).unwrap();
        link.read().unwrap();
        assert_eq!(bodies(&mut link), [vec![2; 5]]);
        drop(daemon);
        let gone = link.read().unwrap_err();
        assert_eq!(gone.to_string(), self::gone(&"it has ended the connection").to_string());
    }

    #[test]
    fn long_frames_find_room_and_short_ones_theirs_again() {
        let (mut link, mut daemon) = link();
        let lens = [ROOM - 100, 10, ROOM - FRAME_HEAD_LEN, ROOM + 1, 1, 2 * ROOM, 7];
        let sent = std::thread::spawn(move || {
            for (n, len) in (1..).zip(lens) {
                daemon.write_all(&frame(len, n)).unwrap();
            }
            daemon
        });
        let mut came = Vec::new();
        while came.len() < lens.len() {
            if link.read().unwrap() == Got::Nothing {
                link.wait(PollFlags::IN, None).unwrap();
            }
            came.extend(bodies(&mut link));
        }
        for ((n, len), body) in (1..).zip(lens).zip(came) {
            assert!(body == vec![n; len], "frame {n} of {len} bytes");
        }
        assert_eq!(link.buf.len(), FRAME_HEAD_LEN + 2 * ROOM, "as long as the longest");
        drop(sent.join().unwrap());
    }

    #[test]
    fn what_fills_the_room_to_the_last_byte_is_told() {
        let (mut link, mut daemon) = link();
        let whole = frame(ROOM - FRAME_HEAD_LEN, 1);
        daemon.set_nonblocking(true).unwrap();
        let mut done = 0;
        while done < whole.len() {
            done += daemon.write(&whole[done..]).unwrap_or(0);
            let got = link.read().unwrap();
            assert_eq!(got == Got::Full, link.end == ROOM, "{} of {ROOM}", link.end);
        }
        assert_eq!(bodies(&mut link).len(), 1);
    }

    #[test]
    fn pieces_are_written_from_any_byte_on() {
        let (mut link, mut daemon) = link();
        let parts: Vec<Vec<u8>> = (0..40_u8).map(|n| vec![n; usize::from(n % 3)]).collect();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let whole = parts.concat();
        for from in 0..=whole.len() {
            let (mut done, mut came) = (from, Vec::new());
            while done < whole.len() {
                let n = link.write(&slices, done).unwrap();
                came.resize(came.len() + n, 0);
                let at = came.len() - n;
                daemon.read_exact(&mut came[at..]).unwrap();
                done += n;
            }
            assert_eq!(came, whole[from..], "from {from}");
        }
    }

    #[test]
    fn descriptors_go_with_what_is_written_next() {
        let (mut link, daemon) = link();
        let (ours, theirs) = UnixStream::pair().unwrap();
        link.hand(theirs.into());
        link.write(&[IoSlice::new(&frame(1, 1))], 0).unwrap();
        link.write(&[IoSlice::new(&frame(1, 2))], 0).unwrap();
        let mut back = Link {
            stream: Arc::new(daemon),
            inode: 0,
            buf: vec![0; ROOM],
            start: 0,
            end: 0,
            descriptors: VecDeque::new(),
            has_more: false,
            queued: Vec::new(),
            handed: Vec::new(),
        };
        let mut frames = 0;
        while frames < 2 {
            back.read().unwrap();
            frames += bodies(&mut back).len();
        }
        let mut came = UnixStream::from(back.descriptor().expect("one came"));
        assert!(back.descriptor().is_none());
        came.write_all(b"x").unwrap();
        let mut byte = [0];
        (&ours).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn what_is_queued_is_taken_once_and_its_memory_used_again() {
        let (mut link, _daemon) = link();
        assert!(!link.has_queued());
        link.queue(b"body");
        assert!(link.has_queued());
        let queued = link.take_queued();
        assert_eq!(queued, [&frame(4, 0)[..FRAME_HEAD_LEN], b"body"].concat());
        assert!(!link.has_queued());
        let memory = queued.as_ptr();
        link.recycle(queued);
        assert!(!link.has_queued(), "it was written");
        link.queue(b"a");
        assert_eq!(link.queued.as_ptr(), memory);
        // What is queued meanwhile stays.
        link.recycle(b"written".to_vec());
        assert_eq!(link.take_queued(), [&frame(1, 0)[..FRAME_HEAD_LEN], b"a"].concat());
    }

    #[test]
    fn a_program_may_have_closed_the_socket() {
        let (mut link, _daemon) = link();
        assert!(link.is_ours());
        // Another socket has the number.
        link.inode += 1;
        assert!(!link.is_ours());
        let stream = Arc::downgrade(&link.stream);
        link.leak();
        drop(link);
        assert_eq!(stream.strong_count(), 1, "it is never closed");
    }
}
