//! Items' output as text, tagged lines or JSON.

use std::io::{self, Write};

use serde_json::json;
use towpath_vm::Stream;

use super::report::Report;
use super::run::ItemDone;

/// How output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it came.
    Plain,
    /// Each line after the item and a tab.
    Tagged,
    /// One JSON object per item, on one line.
    Json,
}

/// Writes items' standard output to one writer and their standard error to another.
#[derive(Debug)]
pub struct Printer<O: Write, E: Write> {
    form: Form,
    /// Where standard output goes, and JSON.
    pub out: O,
    /// Where standard error goes.
    pub err: E,
}

impl<O: Write, E: Write> Printer<O, E> {
    /// A printer.
    pub const fn new(form: Form, out: O, err: E) -> Self {
        Self { form, out, err }
    }

    /// Writes an item's output.
    pub fn item(&mut self, done: &ItemDone<'_>) -> io::Result<()> {
        match self.form {
            Form::Plain => {
                done.read(Stream::Out, &mut |piece| self.out.write_all(piece))?;
                done.read(Stream::Err, &mut |piece| self.err.write_all(piece))
            }
            Form::Tagged => {
                tagged(done, Stream::Out, &mut self.out)?;
                tagged(done, Stream::Err, &mut self.err)
            }
            Form::Json => json_line(done, &mut self.out),
        }
    }

    /// Writes the report as the last JSON line, if JSON is written.
    pub fn report(&mut self, report: &Report) -> io::Result<()> {
        if self.form != Form::Json {
            return Ok(());
        }
        writeln!(self.out, "{}", json!({ "report": report }))
    }

    /// Passes everything on.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.err.flush()
    }
}

fn tagged(done: &ItemDone<'_>, stream: Stream, to: &mut dyn Write) -> io::Result<()> {
    let mut at_start = true;
    done.read(stream, &mut |piece| {
        for line in piece.split_inclusive(|b| *b == b'\n') {
            if at_start {
                to.write_all(done.item)?;
                to.write_all(b"\t")?;
            }
            to.write_all(line)?;
            at_start = line.ends_with(b"\n");
        }
        Ok(())
    })?;
    if at_start { Ok(()) } else { to.write_all(b"\n") }
}

/// One line, never whole in memory: outputs may be long.
fn json_line(done: &ItemDone<'_>, to: &mut dyn Write) -> io::Result<()> {
    let head = json!({
        "seq": done.seq,
        "item": String::from_utf8_lossy(done.item),
        "host": done.host,
        "exit": done.exit.ending.shell_status(),
        "ending": done.exit.ending.to_string(),
        "wall_us": done.exit.wall_us,
    })
    .to_string();
    to.write_all(&head.as_bytes()[..head.len() - 1])?;
    for (name, stream) in [("stdout", Stream::Out), ("stderr", Stream::Err)] {
        write!(to, ",\"{name}\":\"")?;
        let mut text = JsonText { to, carry: vec![], is_utf8: true };
        done.read(stream, &mut |piece| text.push(piece))?;
        let is_utf8 = text.finish()?;
        write!(to, "\",\"{name}_is_utf8\":{is_utf8}")?;
    }
    to.write_all(b"}\n")
}

/// Escapes text that comes in pieces, cut anywhere. Invariant: `carry` holds at most 3 bytes, the
/// beginning of a character.
struct JsonText<'a> {
    to: &'a mut dyn Write,
    carry: Vec<u8>,
    is_utf8: bool,
}

impl JsonText<'_> {
    fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        let joined;
        let mut bytes = piece;
        if !self.carry.is_empty() {
            self.carry.extend_from_slice(piece);
            joined = std::mem::take(&mut self.carry);
            bytes = &joined;
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.escaped(chunk.valid())?;
            let invalid = chunk.invalid();
            let cut = str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
            if cut && chunks.peek().is_none() {
                self.carry = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.replace()?;
            }
        }
        Ok(())
    }

    fn escaped(&mut self, text: &str) -> io::Result<()> {
        let quoted = serde_json::to_string(text)?;
        self.to.write_all(&quoted.as_bytes()[1..quoted.len() - 1])
    }

    fn replace(&mut self) -> io::Result<()> {
        self.is_utf8 = false;
        self.to.write_all("\u{fffd}".as_bytes())
    }

    /// The end; true when everything was UTF-8.
    fn finish(mut self) -> io::Result<bool> {
        if !self.carry.is_empty() {
            self.replace()?;
        }
        Ok(self.is_utf8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::output::{Limits, Store};
    use proptest::prelude::*;
    use towpath_vm::{Ending, TaskExit};

    fn printed(form: Form, out: &[u8], err: &[u8], cut: usize) -> (Vec<u8>, Vec<u8>) {
        let mut store = Store::new(Limits { item_bytes: cut, total_bytes: 1000 });
        for (stream, bytes) in [(Stream::Out, out), (Stream::Err, err)] {
            for piece in bytes.chunks(cut) {
                store.append(1, stream, piece.to_vec()).unwrap();
            }
        }
        let capture = store.take(1);
        let exit = TaskExit { ending: Ending::Exited(2), wall_us: 5 };
        let mut printer = Printer::new(form, vec![], vec![]);
        let done = ItemDone::new((7, b"it"), "b", &exit, (&store, &capture));
        printer.item(&done).unwrap();
        (printer.out, printer.err)
    }

    #[test]
    fn plain_output_is_as_it_came() {
        let (out, err) = printed(Form::Plain, b"a\nb", b"\xff", 1);
        assert_eq!((out, err), (b"a\nb".to_vec(), b"\xff".to_vec()));
    }

    #[test]
    fn tagged_lines_begin_with_the_item_and_end() {
        let (out, err) = printed(Form::Tagged, b"a\n\nb", b"", 1);
        assert_eq!(String::from_utf8(out).unwrap(), "it\ta\nit\t\nit\tb\n");
        assert!(err.is_empty());
    }

    #[test]
    fn json_tells_the_result_and_both_outputs() {
        let (out, err) = printed(Form::Json, "ä\"\n".as_bytes(), b"x\xffy", 2);
        assert!(err.is_empty());
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["seq"], 7);
        assert_eq!(value["exit"], 2);
        assert_eq!((&value["stdout"], &value["stdout_is_utf8"]), (&"ä\"\n".into(), &true.into()));
        assert_eq!((&value["stderr"], &value["stderr_is_utf8"]), (&"x�y".into(), &false.into()));
    }

    proptest! {
        #[test]
        fn json_text_is_the_lossy_text_however_it_is_cut(
            text in "[aé€😀\"\\\\\n]{0,12}", noise: Vec<u8>, cut in 1usize..5,
        ) {
            let bytes = [text.as_bytes(), &noise].concat();
            let (out, _) = printed(Form::Json, &bytes, text.as_bytes(), cut);
            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let lossy = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(value["stdout"].as_str().unwrap(), lossy.as_ref());
            let is_utf8 = str::from_utf8(&bytes).is_ok();
            prop_assert_eq!(value["stdout_is_utf8"].as_bool().unwrap(), is_utf8);
            prop_assert_eq!(value["stderr"].as_str().unwrap(), text.as_str());
        }
    }
}
