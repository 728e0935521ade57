//! A conversation of two processes: one JSON object a line.

use std::io::{BufRead, BufReader, Read, Write};

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One end of the conversation, over a stream that gives up where nothing is said for too long.
pub(crate) struct Line<S> {
    stream: BufReader<S>,
    /// Longest line that is read, in bytes.
    longest: u64,
}

impl<S: Read + Write> Line<S> {
    pub(crate) fn new(stream: S, longest: u64) -> Self {
        Self { stream: BufReader::new(stream), longest }
    }

    pub(crate) fn stream(&self) -> &S {
        self.stream.get_ref()
    }

    pub(crate) fn say<T: Serialize>(&mut self, what: &T) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).context("the other end is gone")
    }

    /// The next thing that the other end says; `None` when it has ended.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let mut line = String::new();
        let n = (&mut self.stream).take(self.longest).read_line(&mut line);
        if n.context("the other end says nothing")? == 0 {
            return Ok(None);
        }
        if !line.ends_with('\n') {
            bail!("a line of more than {} bytes from the other end", self.longest);
        }
        Ok(Some(serde_json::from_str(&line).context("the other end speaks otherwise")?))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_said_is_heard_and_a_line_that_is_too_long_is_none() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Line::new(a, 8), Line::new(b, 8));
        a.say(&[1, 2]).unwrap();
        assert_eq!(b.hear::<Vec<u32>>().unwrap(), Some(vec![1, 2]));
        b.say(&"123456789").unwrap();
        let why = a.hear::<String>().unwrap_err().to_string();
        assert!(why.contains("more than 8 bytes"), "{why}");
        drop(a);
        assert_eq!(b.hear::<Vec<u32>>().unwrap(), None);
    }
}
