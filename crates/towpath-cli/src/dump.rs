//! `dump`: the datagrams of a capture in words.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use towpath_wire::packet::{DATA_HEADER, Data, Packet};
use towpath_wire::show::Shown;

use crate::capture::{self, Captured, Udp, udp};
use crate::files::shown;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tcpdump -i eth0 -w packets.pcap udp port 7077 &
  towpath dump packets.pcap
  towpath dump packets.pcapng --port 7077 --clear

A line per datagram: seconds since the first packet, from, to, UDP payload, what it says. Sealed
packets show their header only: nobody but the two hosts can open them. docs/transport.md says how
to read the rest; `towpath sim run --dump` writes the same of a simulated transfer. Trains that were
captured as one datagram (segmentation offload) are cut where the next packet number stands.

Exit status: 0; 1 no datagram of Towpath in it; 255 for errors.")]
pub(crate) struct DumpArgs {
    /// A capture (pcap or pcapng); `-`: standard input
    file: PathBuf,
    /// Only datagrams from or to this UDP port
    #[arg(long)]
    port: Option<u16>,
    /// The link is trusted, its packets are not sealed: show their frames
    #[arg(long)]
    clear: bool,
}

pub(crate) fn run(args: &DumpArgs) -> anyhow::Result<ExitCode> {
    let source = open(&args.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let counts =
        dump(args, source, &mut out).with_context(|| format!("in {}", shown(&args.file)))?;
    out.flush().context("cannot write output")?;
    let Counts { packets, datagrams, ours, trains } = counts;
    eprintln!(
        "{packets} packets, {datagrams} UDP datagrams, {ours} shown, {trains} of those trains"
    );
    Ok(ExitCode::from(u8::from(ours == 0)))
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    if path.is_dir() {
        bail!("{} is a directory\nhint: name the files in it", shown(path));
    }
    Ok(Box::new(File::open(path).with_context(|| format!("cannot open {}", shown(path)))?))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    packets: u64,
    datagrams: u64,
    ours: u64,
    trains: u64,
}

fn dump(args: &DumpArgs, source: impl Read + Send, out: &mut impl Write) -> anyhow::Result<Counts> {
    let (mut counts, mut first) = (Counts::default(), None);
    capture::read(source, |packet: &Captured<'_>| {
        counts.packets += 1;
        let begin = packet.ns.map(|ns| *first.get_or_insert(ns));
        let Some(datagram) = udp(packet.link, packet.kept) else { return Ok(()) };
        let ports = [datagram.from.port(), datagram.to.port()];
        if args.port.is_some_and(|port| !ports.contains(&port)) {
            return Ok(());
        }
        counts.datagrams += 1;
        if !is_ours(&datagram) {
            return Ok(());
        }
        counts.ours += 1;
        let segment = segment(&datagram);
        counts.trains += u64::from(segment < datagram.len);
        let ns = packet.ns.zip(begin).map_or(0, |(ns, begin)| ns.saturating_sub(begin));
        for at in (0..datagram.len).step_by(segment) {
            let len = segment.min(datagram.len - at);
            let kept = datagram.payload.get(at..).unwrap_or_default();
            let part = Udp { len, payload: &kept[..len.min(kept.len())], ..datagram };
            line(out, ns, &part, args.clear).context("cannot write output")?;
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Kernels cut trains up after the capture, and join what arrives before it: what one datagram of
/// the train takes, told by the header of the second, which has the next packet number.
fn segment(datagram: &Udp<'_>) -> usize {
    let Ok(Packet::Data(first)) = Packet::parse(datagram.payload) else { return datagram.len };
    let mut second = [0; DATA_HEADER];
    Data { number: first.number.wrapping_add(1), ..first }.emit(&mut second);
    let begins = |at: &usize| datagram.payload[*at..].starts_with(&second);
    (DATA_HEADER..datagram.payload.len()).find(begins).unwrap_or(datagram.len)
}

/// It is as long as one of our packets, and begins like one.
fn is_ours(datagram: &Udp<'_>) -> bool {
    // Of what was cut, the beginning is looked at as if the rest were zeros.
    let mut whole = datagram.payload.to_vec();
    whole.resize(datagram.len, 0);
    Packet::parse(&whole).is_ok()
}

fn line(out: &mut impl Write, ns: u64, datagram: &Udp<'_>, clear: bool) -> io::Result<()> {
    let (seconds, part) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let Udp { from, to, len, payload } = datagram;
    write!(out, "{seconds}.{part:09} {from} > {to} {len} B ")?;
    if payload.len() == *len {
        return writeln!(out, "{}", Shown { datagram: payload, clear });
    }
    let mut whole = payload.to_vec();
    whole.resize(*len, 0);
    let shown = Shown { datagram: &whole, clear: false };
    writeln!(out, "{shown} (only {} B captured)", payload.len())
}

#[cfg(test)]
mod tests {
    use towpath_wire::PathId;
    use towpath_wire::packet::TAG;

    use super::*;
    use crate::capture::tests::{classic, frame};

    fn shown_lines(clear: bool, port: Option<u16>, kept: usize) -> (String, Counts) {
        let mut packet = vec![0; DATA_HEADER + 3 + TAG];
        Data { epoch: 0, path: PathId(0), receiver: 7, number: 42 }.emit(&mut packet);
        packet[DATA_HEADER] = 1;
        let (ours, other) = (frame(&packet), frame(b"not ours"));
        let size = |f: &[u8]| f.len() as u32;
        let bytes = classic(&[
            (1_000_000, size(&other), &other),
            (1_000_250, size(&ours), &ours[..ours.len().min(kept)]),
        ]);
        let args = DumpArgs { file: PathBuf::new(), port, clear };
        let mut out = Vec::new();
        let counts = dump(&args, &bytes[..], &mut out).unwrap();
        (String::from_utf8(out).unwrap(), counts)
    }

    #[test]
    fn packets_are_shown_and_what_is_not_ours_is_only_counted() {
        let (text, counts) = shown_lines(false, None, 1000);
        let line = "0.000250000 10.0.0.1:7077 > 10.0.0.2:7078 35 B data to 0x7 path 0 #42: 3 B \
                    sealed\n";
        assert_eq!(text, line);
        assert_eq!(counts, Counts { packets: 2, datagrams: 2, ours: 1, trains: 0 });
        let (text, _) = shown_lines(true, Some(7078), 1000);
        assert!(text.ends_with("#42: PING; PAD x 2\n"), "{text}");
        let (text, counts) = shown_lines(true, Some(9), 1000);
        assert_eq!((text.as_str(), counts.datagrams), ("", 0));
        // 14 + 4 + 20 + 8 bytes of headers, 16 of ours.
        let (text, _) = shown_lines(true, None, 46 + 16);
        assert!(text.ends_with("#42: 3 B sealed (only 16 B captured)\n"), "{text}");
    }

    #[test]
    fn a_train_is_cut_where_the_next_number_stands() {
        let mut train = Vec::new();
        for (number, content) in [(5, 100), (6, 100), (7, 30)] {
            let mut packet = vec![0xaa; DATA_HEADER + content + TAG];
            Data { epoch: 0, path: PathId(2), receiver: 7, number }.emit(&mut packet);
            train.extend(packet);
        }
        let bytes = classic(&[(0, 0, &frame(&train))]);
        let args = DumpArgs { file: PathBuf::new(), port: None, clear: false };
        let mut out = Vec::new();
        let counts = dump(&args, &bytes[..], &mut out).unwrap();
        assert_eq!((counts.ours, counts.trains), (1, 1));
        let text = String::from_utf8(out).unwrap();
        let ends = ["#5: 100 B sealed", "#6: 100 B sealed", "#7: 30 B sealed"];
        assert!(text.lines().zip(ends).all(|(line, end)| line.ends_with(end)), "{text}");
        assert_eq!(text.lines().count(), 3);
    }
}
