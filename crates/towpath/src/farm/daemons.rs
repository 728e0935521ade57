//! The daemons that a farm may work through: one at a time, the next when it goes away.

use std::path::Path;
use std::time::Duration;

use towpath_wire::Instant;

use super::link::Link;
use crate::client::ClientError;
use crate::lock::Holder;
use crate::protocol::{FrameError, Reply, Request};
use crate::start::limits::want_of;

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
            let holder = Path::new(&path).parent().and_then(Holder::of);
            let why = holder.and_then(|holder| want_of(holder.pid));
            let why = why.unwrap_or_else(|| "\nhint: see `towpath hosts`".into());
            let wait = ANSWER.as_secs();
            return Err(ClientError::Failed(format!(
                "the daemon at {path} did not answer within {wait} s{why}"
            )));
        }
        Ok(reply)
    }

    /// The next reply, if it is here already.
    pub(super) fn try_next(&self) -> Result<Option<Reply>, ClientError> {
        self.link.as_ref().ok_or(ClientError::Gone)?.try_next()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;
    use crate::protocol::greeting;
    use crate::support::{LONG, Vm};

    const NOW: Instant = Instant::ZERO;

    /// A daemon that says who it is, and nothing else.
    fn silent(dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (bytes, len) = greeting().emit();
                // Who has gone already needs no greeting.
                let _ = stream.write_all(&bytes[..len]);
                std::thread::spawn(move || stream.read_to_end(&mut Vec::new()));
            }
        });
        path
    }

    #[test]
    fn the_first_daemon_that_answers_is_worked_through_and_tells_its_hosts() {
        let vm = Vm::up(1);
        let (none, one) = (vm.host(9).join("sock"), vm.host(1).join("sock"));
        let mut daemons = Daemons::new(vec![&none, &one]);
        assert!(!daemons.is_connected());
        assert!(matches!(daemons.next(NOW, Duration::ZERO), Err(ClientError::Gone)));
        assert!(matches!(daemons.try_next(), Err(ClientError::Gone)));
        daemons.connect(NOW).unwrap();
        assert!(daemons.is_connected() && !daemons.is_settled());
        assert_eq!(daemons.path(), one.display().to_string());
        let hosts = daemons.next(NOW, LONG).unwrap();
        assert!(matches!(&hosts, Some(Reply::Hosts(hosts)) if hosts.len() == 1), "{hosts:?}");
        daemons.settled();
        assert!(daemons.is_settled());
        // It is watched: and what is asked is written when it is told to be.
        daemons.push(&Request::Info).unwrap();
        assert!(!daemons.is_full());
        let late = NOW + ANSWER * 2;
        assert!(matches!(daemons.next(late, Duration::from_millis(20)), Ok(None)), "nobody asked");
        daemons.flush().unwrap();
        assert!(matches!(daemons.next(late, LONG), Ok(Some(Reply::Info(_)))));
        assert!(matches!(daemons.try_next(), Ok(None)));
        while !daemons.is_full() {
            daemons.push(&Request::Info).unwrap();
        }
        daemons.flush().unwrap();
        assert!(!daemons.is_full());
        assert!(matches!(daemons.next(late, LONG), Ok(Some(Reply::Info(_)))));
        daemons.disconnect();
        assert!(!daemons.is_connected() && !daemons.is_full());
        assert!(daemons.push(&Request::Info).is_ok() && daemons.flush().is_ok());
    }

    #[test]
    fn a_daemon_that_does_not_tell_its_hosts_is_given_up_and_each_other_is_tried() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["one", "two"].map(|name| silent(dir.path(), name));
        let mut daemons = Daemons::new(paths.iter().map(PathBuf::as_path).collect());
        daemons.connect(NOW).unwrap();
        assert_eq!(daemons.path(), paths[0].display().to_string());
        let just = NOW + ANSWER - Duration::from_nanos(1);
        assert!(matches!(daemons.next(just, Duration::ZERO), Ok(None)));
        let given_up = daemons.next(NOW + ANSWER, Duration::ZERO).unwrap_err();
        let said = format!("the daemon at {} did not answer within 5 s", daemons.path());
        assert!(given_up.to_string().starts_with(&said), "{given_up}");
        // Each once more since one was last any good, and no more.
        for at in [1, 0] {
            daemons.connect_next(NOW, ClientError::Gone).unwrap();
            assert_eq!(daemons.path(), paths[at].display().to_string());
        }
        daemons.settled();
        for at in [1, 0, 1] {
            daemons.connect_next(NOW, ClientError::Gone).unwrap();
            assert_eq!(daemons.path(), paths[at].display().to_string());
        }
        let over = daemons.connect_next(NOW, ClientError::Silent);
        assert!(matches!(over, Err(ClientError::Silent)), "{over:?}");
        assert!(!daemons.is_connected());
    }

    #[test]
    fn where_no_daemon_answers_the_first_one_says_why() {
        let paths = ["/no/such/a", "/no/such/b"].map(PathBuf::from);
        let mut daemons = Daemons::new(paths.iter().map(PathBuf::as_path).collect());
        let error = daemons.connect(NOW).unwrap_err();
        assert!(matches!(&error, ClientError::Connect { path, .. } if *path == paths[0]));
        assert!(!daemons.is_connected());
        let mut nothing = Daemons::new(Vec::new());
        let error = nothing.connect(NOW).unwrap_err().to_string();
        assert!(error.starts_with("no daemon to work with"), "{error}");
        assert_eq!(nothing.path(), "");
        let error = nothing.connect_next(NOW, ClientError::Gone).unwrap_err();
        assert!(matches!(error, ClientError::Failed(_)), "{error}");
    }
}
