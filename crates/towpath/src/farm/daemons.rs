//! The daemons that a farm may work through: one at a time, the next when it goes away.

use std::path::Path;
use std::time::Duration;

use towpath_wire::Instant;

use super::link::Link;
use crate::client::ClientError;
use crate::protocol::{FrameError, Reply, Request};

/// How long a daemon may take to tell its hosts.
const ANSWER: Duration = Duration::from_secs(5);

/// The current connection, and where else to go. Invariant: `unsettled` counts connections in a
/// row to daemons that did not tell their hosts.
#[derive(Debug)]
pub(super) struct Daemons<'a> {
    sockets: Vec<&'a Path>,
    at: usize,
    link: Option<Link>,
    /// Until when the answer about hosts may come; none: it came.
    hosts_by: Option<Instant>,
    unsettled: usize,
}

impl<'a> Daemons<'a> {
    pub(super) const fn new(sockets: Vec<&'a Path>) -> Self {
        Self { sockets, at: 0, link: None, hosts_by: None, unsettled: 0 }
    }

    /// Connects to the first one that answers, from the current one on.
    pub(super) fn connect(&mut self, now: Instant) -> Result<(), ClientError> {
        let mut error = None;
        for _ in 0..self.sockets.len() {
            match self.open(now) {
                Ok(()) => return Ok(()),
                // What the first choice said tells most.
                Err(e) => error = error.or(Some(e)),
            }
            self.at = (self.at + 1) % self.sockets.len();
        }
        Err(error.unwrap_or_else(|| {
            ClientError::Failed(
                "no daemon to work with\nhint: start one with `towpath up`".to_string(),
            )
        }))
    }

    fn open(&mut self, now: Instant) -> Result<(), ClientError> {
        let mut link = Link::connect(self.sockets[self.at])?;
        // First, so that no host is missed between the two.
        link.push(&Request::Watch)?;
        link.push(&Request::Hosts)?;
        link.flush()?;
        self.link = Some(link);
        self.hosts_by = Some(now + ANSWER);
        self.unsettled += 1;
        Ok(())
    }

    /// The current one went away, for this reason: connects to the next one that answers. Gives
    /// up when each was tried since one was last any good.
    pub(super) fn connect_next(
        &mut self,
        now: Instant,
        cause: ClientError,
    ) -> Result<(), ClientError> {
        self.disconnect();
        if self.unsettled > self.sockets.len() {
            return Err(cause);
        }
        self.at = (self.at + 1) % self.sockets.len().max(1);
        self.connect(now)
    }

    /// It told its hosts.
    pub(super) const fn settled(&mut self) {
        self.hosts_by = None;
        self.unsettled = 0;
    }

    pub(super) const fn is_settled(&self) -> bool {
        self.hosts_by.is_none()
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Ends the connection, and with it what the daemon runs for us.
    pub(super) fn disconnect(&mut self) {
        self.link = None;
    }

    /// The current socket.
    pub(super) fn path(&self) -> String {
        self.sockets.get(self.at).map_or_else(String::new, |p| p.display().to_string())
    }

    /// Adds a request to the batch.
    pub(super) fn push(&mut self, request: &Request) -> Result<(), FrameError> {
        self.link.as_mut().map_or(Ok(()), |link| link.push(request))
    }

    pub(super) fn is_full(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_full)
    }

    /// Writes the batch.
    pub(super) fn flush(&mut self) -> Result<(), ClientError> {
        self.link.as_mut().map_or(Ok(()), Link::flush)
    }

    /// The next reply, if one comes within `wait`.
    pub(super) fn next(&self, now: Instant, wait: Duration) -> Result<Option<Reply>, ClientError> {
        let reply = self.link.as_ref().ok_or(ClientError::Gone)?.next(wait)?;
        if reply.is_none() && self.hosts_by.is_some_and(|by| by <= now) {
            let path = self.path();
            return Err(ClientError::Failed(format!(
                "the daemon at {path} did not answer within {} s\nhint: see `towpath hosts`",
                ANSWER.as_secs()
            )));
        }
        Ok(reply)
    }

    /// The next reply, if it is here already.
    pub(super) fn try_next(&self) -> Result<Option<Reply>, ClientError> {
        self.link.as_ref().ok_or(ClientError::Gone)?.try_next()
    }
}
