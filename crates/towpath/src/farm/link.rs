//! A connection to a daemon with a thread that reads, so that the driver can take what is there
//! and write its answers to all of it at once.
//!
//! The queue between the two is not bounded by itself: the reader must go on while the driver
//! waits for the daemon to take requests, or both would wait for ever. What bounds it is the
//! output credit that the driver gave.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client::{Client, ClientError, Sender};
use crate::protocol::{FrameError, Reply, Request, encode};

/// Requests are written when they are so many bytes.
const BATCH: usize = 256 * 1024;

/// A connection. Dropping it closes it, and the daemon ends what it runs for us.
#[derive(Debug)]
pub(crate) struct Link {
    sender: Sender,
    replies: mpsc::Receiver<Result<Reply, ClientError>>,
    reader: Option<JoinHandle<()>>,
    out: Vec<u8>,
}

impl Link {
    pub(crate) fn connect(path: &Path) -> Result<Self, ClientError> {
        let Client { sender, mut receiver } = Client::connect(path)?;
        let (tx, replies) = mpsc::channel();
        let read = move || {
            loop {
                let reply = match receiver.next(None) {
                    Ok(Some(reply)) => Ok(reply),
                    Ok(None) => continue,
                    Err(e) => Err(e),
                };
                let end = reply.is_err();
                if tx.send(reply).is_err() || end {
                    return;
                }
            }
        };
        let reader = thread::Builder::new().name("farm-replies".into()).spawn(read)?;
        Ok(Self { sender, replies, reader: Some(reader), out: vec![] })
    }

    /// Adds a request to the batch. An error concerns the request, not the connection.
    pub(crate) fn push(&mut self, request: &Request) -> Result<(), FrameError> {
        self.out.extend_from_slice(&encode(request)?);
        Ok(())
    }

    /// True when the batch is large enough to go.
    pub(crate) const fn is_full(&self) -> bool {
        self.out.len() >= BATCH
    }

    /// Writes the batch.
    pub(crate) fn flush(&mut self) -> Result<(), ClientError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let sent = self.sender.send_bytes(&self.out);
        self.out.clear();
        sent
    }

    /// The next reply, if one comes within `timeout`.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Reply>, ClientError> {
        match self.replies.recv_timeout(timeout) {
            Ok(reply) => reply.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ClientError::Gone),
        }
    }

    /// The next reply, if it is here already.
    pub(crate) fn try_next(&self) -> Result<Option<Reply>, ClientError> {
        match self.replies.try_recv() {
            Ok(reply) => reply.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ClientError::Gone),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.sender.close();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
