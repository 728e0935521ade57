//! Where a stream's bytes come from, and the thread that reads them: reading may have to wait for a
//! disk, and sending must not.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use towpath_media::send::WINDOW_FILL;

/// Whether a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It is sent once.
    Once,
    /// It starts anew when it ends, for ever.
    Forever,
}

/// A source of bytes.
#[derive(Debug)]
pub enum Source {
    /// A file, read where it is asked for.
    File {
        /// The file.
        file: File,
        /// The byte at which to begin: of a packet.
        from: u64,
        /// What follows its end.
        repeat: Repeat,
    },
    /// A pipe or terminal, read as it comes.
    Pipe(File),
}

/// A source that cannot be read on.
#[derive(Debug, thiserror::Error)]
#[error("cannot read on at byte {at}")]
pub struct SourceError {
    /// How far it was read.
    pub at: u64,
    /// Why not further.
    #[source]
    pub why: io::Error,
}

/// What is asked of the reading thread.
pub(super) enum Ask {
    /// Up to so many bytes of a stream.
    Fill(u64, usize),
    /// A stream begins.
    Open(u64, Source),
    /// A stream goes on at another byte.
    Seek(u64, u64),
    /// A stream is over.
    Close(u64),
}

/// What it tells.
pub(super) enum Told {
    /// Bytes of a stream.
    Block(u64, Vec<u8>),
    /// The next bytes are from the file's beginning again.
    Splice(u64),
    /// The next bytes are from where play is to go on.
    Sought(u64),
    /// There is no more.
    End(u64, Option<Arc<SourceError>>),
}

struct Reading {
    source: Source,
    at: u64,
    /// Bytes since the last beginning: a file without any does not repeat.
    since: u64,
}

/// Reads until nobody asks any more. Files are read here; a pipe has a thread of its own, since a
/// read of it may never return.
pub(super) fn run(asks: &Receiver<Ask>, tell: &(impl Fn(Told) + Clone + Send + 'static)) {
    let mut files = std::collections::HashMap::new();
    let mut pipes: std::collections::HashMap<u64, Sender<usize>> = std::collections::HashMap::new();
    while let Ok(ask) = asks.recv() {
        match ask {
            Ask::Open(id, Source::Pipe(pipe)) => {
                let (fill, fills) = std::sync::mpsc::channel();
                let tell = tell.clone();
                let named = std::thread::Builder::new().name("pipe".into());
                let spawned = named.spawn(move || read_pipe(id, pipe, &fills, &tell));
                if spawned.is_ok() {
                    pipes.insert(id, fill);
                }
            }
            Ask::Open(id, source) => {
                let at = if let Source::File { from, .. } = &source { *from } else { 0 };
                files.insert(id, Reading { source, at, since: 0 });
            }
            Ask::Fill(id, bytes) => {
                if let Some(reading) = files.get_mut(&id) {
                    fill(id, reading, bytes, tell);
                } else if let Some(pipe) = pipes.get(&id) {
                    let _ = pipe.send(bytes);
                }
            }
            Ask::Seek(id, at) => {
                if let Some(reading) = files.get_mut(&id) {
                    (reading.at, reading.since) = (at, 0);
                    tell(Told::Sought(id));
                }
            }
            Ask::Close(id) => {
                files.remove(&id);
                pipes.remove(&id);
            }
        }
    }
}

fn fill(id: u64, reading: &mut Reading, bytes: usize, tell: &impl Fn(Told)) {
    let Source::File { file, repeat, .. } = &reading.source else { return };
    let mut block = vec![0; bytes.min(WINDOW_FILL)];
    loop {
        match file.read_at(&mut block, reading.at) {
            Ok(0) if *repeat == Repeat::Forever && reading.since > 0 => {
                (reading.at, reading.since) = (0, 0);
                tell(Told::Splice(id));
            }
            Ok(0) => return tell(Told::End(id, None)),
            Ok(n) => {
                reading.at += n as u64;
                reading.since += n as u64;
                block.truncate(n);
                return tell(Told::Block(id, block));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => {
                let error = SourceError { at: reading.at, why };
                return tell(Told::End(id, Some(Arc::new(error))));
            }
        }
    }
}

fn read_pipe(id: u64, mut pipe: File, fills: &Receiver<usize>, tell: &impl Fn(Told)) {
    let mut at = 0;
    while let Ok(bytes) = fills.recv() {
        let mut block = vec![0; bytes.min(WINDOW_FILL)];
        let read = loop {
            match pipe.read(&mut block) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match read {
            Ok(0) => return tell(Told::End(id, None)),
            Ok(n) => {
                at += n as u64;
                block.truncate(n);
                tell(Told::Block(id, block));
            }
            Err(why) => return tell(Told::End(id, Some(Arc::new(SourceError { at, why })))),
        }
    }
}
