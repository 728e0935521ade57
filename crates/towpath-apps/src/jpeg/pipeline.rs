//! The five stages, and who does which.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use towpath_report::plot::{Column, Table};

use super::coder::{MCU, decode, encode, join};
use super::image::{Image, PIXELS_MAX, View};
use crate::exchange::Exchange;
use crate::picture::Field;
use crate::report::Report;

const RAW: i32 = 1;
const CODED: i32 = 2;
const DONE: i32 = 3;
/// Strips under way for each task that compresses.
const AHEAD: usize = 3;
/// Links for which times are told, bit/s: a T1, an Ethernet of 1994, 100 Mbit/s.
const LINKS: [(&str, f64); 3] = [("1.5 Mbit/s", 1.544e6), ("10 Mbit/s", 1e7), ("100 Mbit/s", 1e8)];

#[derive(Clone, Debug, Args)]
pub(crate) struct JpegArgs {
    /// A picture to compress (PPM) instead of one that is made up
    #[arg(long, value_name = "PPM")]
    image: Option<PathBuf>,
    /// Where the compressed picture goes
    #[arg(long, value_name = "JPG")]
    file: Option<PathBuf>,
    /// Width and height of the made-up picture
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"], default_values_t = [512, 397])]
    size: Vec<usize>,
    /// Quality, 1 to 100
    #[arg(long, default_value_t = 75)]
    quality: u8,
    /// Rows of pixels in a strip, a multiple of 16
    #[arg(long, default_value_t = 32)]
    rows: usize,
}

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Reads and assembles.
    Root,
    Compress,
    Decompress,
    /// Both: there is one beside the root.
    Both,
}

const fn role(rank: usize, size: usize) -> Role {
    match (rank, size) {
        (0, _) => Role::Root,
        (_, 2) => Role::Both,
        _ if rank <= size / 2 => Role::Compress,
        _ => Role::Decompress,
    }
}

fn with(role_wanted: &[Role], size: usize) -> Vec<usize> {
    (0..size).filter(|rank| role_wanted.contains(&role(*rank, size))).collect()
}

/// How long a task worked at its stage, and how long it waited for strips.
struct Clock {
    begun: Instant,
    waited: Duration,
}

impl Clock {
    fn new() -> Self {
        Self { begun: Instant::now(), waited: Duration::ZERO }
    }

    fn waiting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let got = wait();
        self.waited += before.elapsed();
        got
    }

    /// Nanoseconds of work, and of all.
    fn words(&self) -> [u64; 2] {
        let all = self.begun.elapsed();
        [all.saturating_sub(self.waited), all].map(|time| time.as_nanos() as u64)
    }
}

/// Of each stage, how much of the root's time its tasks were busy on average; `clocks` are all
/// tasks' work and time, in ns.
fn busy(clocks: &[u64]) -> String {
    let clocks = clocks.as_chunks::<2>().0;
    let size = clocks.len();
    let whole = clocks[0][1].max(1) as f64;
    if size == 1 {
        return "one task does all".to_owned();
    }
    let stages = [
        (Role::Root, "reads and assembles"),
        (Role::Compress, "compress"),
        (Role::Decompress, "decompress"),
        (Role::Both, "compresses and decompresses"),
    ];
    let line = |(of, words): (Role, &str)| {
        let tasks = with(&[of], size);
        let work: u64 = tasks.iter().map(|rank| clocks[*rank][0]).sum();
        let share = work as f64 / tasks.len() as f64 / whole;
        let time = towpath_report::units::time_text(whole / 1e9);
        let words = format!("{} {words}: {:.0} % of {time}", tasks.len(), 100.0 * share);
        (!tasks.is_empty()).then_some(words)
    };
    stages.into_iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// What comes out at the end.
struct Assembled {
    jpeg: Vec<u8>,
    image: Image,
}

/// Message of a strip: its number, and its bytes.
fn numbered(number: usize, bytes: &[u8]) -> Vec<u8> {
    [&(number as u64).to_le_bytes(), bytes].concat()
}

fn number(message: &[u8]) -> anyhow::Result<(usize, &[u8])> {
    let split = message.split_first_chunk::<8>().context("a strip without a number")?;
    Ok((u64::from_le_bytes(*split.0) as usize, split.1))
}

/// Runs all stages; the root, which alone gives an image, gets the result.
fn pipeline(
    exchange: &mut dyn Exchange,
    image: Option<&Image>,
    quality: u8,
    rows: usize,
    clock: &mut Clock,
) -> anyhow::Result<Option<Assembled>> {
    ensure!(rows > 0 && rows.is_multiple_of(MCU), "strips of {rows} rows: a multiple of {MCU}");
    ensure!((1..=100).contains(&quality), "a quality of {quality}: from 1 to 100");
    let size = exchange.size();
    match role(exchange.rank(), size) {
        Role::Root => {
            let image = image.context("the root has no image")?;
            return root(exchange, image, quality, rows, clock).map(Some);
        }
        Role::Both => loop {
            let (_, message) = clock.waiting(|| exchange.recv(Some(0), RAW))?;
            if message.is_empty() {
                break;
            }
            let (strip, pixels) = number(&message)?;
            let coded = encode(&View::unpacked(pixels)?, quality)?;
            exchange.send(0, DONE, &done(strip, &coded)?)?;
        },
        Role::Compress => {
            let next = with(&[Role::Decompress], size);
            loop {
                let (_, message) = clock.waiting(|| exchange.recv(Some(0), RAW))?;
                if message.is_empty() {
                    break;
                }
                let (strip, pixels) = number(&message)?;
                let coded = encode(&View::unpacked(pixels)?, quality)?;
                exchange.send(next[strip % next.len()], CODED, &numbered(strip, &coded))?;
            }
            for to in next {
                exchange.send(to, CODED, &[])?;
            }
        }
        Role::Decompress => {
            let mut open = with(&[Role::Compress], size).len();
            while open > 0 {
                let (_, message) = clock.waiting(|| exchange.recv(None, CODED))?;
                if message.is_empty() {
                    open -= 1;
                    continue;
                }
                let (strip, coded) = number(&message)?;
                exchange.send(0, DONE, &done(strip, coded)?)?;
            }
        }
    }
    Ok(None)
}

/// A decompressed strip, with what it was decompressed from.
fn done(strip: usize, coded: &[u8]) -> anyhow::Result<Vec<u8>> {
    let pixels = decode(coded)?;
    let mut message = numbered(strip, &(coded.len() as u64).to_le_bytes());
    message.reserve(coded.len() + pixels.pixels.len() + 8);
    message.extend_from_slice(coded);
    pixels.view().pack(&mut message);
    Ok(message)
}

fn root(
    exchange: &mut dyn Exchange,
    image: &Image,
    quality: u8,
    rows: usize,
    clock: &mut Clock,
) -> anyhow::Result<Assembled> {
    let size = exchange.size();
    let strips = image.height.div_ceil(rows);
    let strip = |number: usize| {
        let first = number * rows;
        image.strip(first, rows.min(image.height - first))
    };
    let mut coded: Vec<Vec<u8>> = vec![Vec::new(); strips];
    let mut pixels = vec![0; image.pixels.len()];
    let coders = with(&[Role::Compress, Role::Both], size);
    let mut sent = 0;
    for arrived in 0..strips {
        while sent < strips && !coders.is_empty() && sent < arrived + AHEAD * coders.len() {
            let mut message = numbered(sent, &[]);
            strip(sent).pack(&mut message);
            exchange.send(coders[sent % coders.len()], RAW, &message)?;
            sent += 1;
        }
        let message = match coders.is_empty() {
            true => done(arrived, &encode(&strip(arrived), quality)?)?,
            false => clock.waiting(|| exchange.recv(None, DONE))?.1,
        };
        let (at, rest) = number(&message)?;
        let (len, rest) = number(rest)?;
        ensure!(at < strips && len <= rest.len(), "strip {at} of {strips}, {len} bytes");
        ensure!(coded[at].is_empty(), "strip {at} came twice");
        let (jpeg, rest) = rest.split_at(len);
        let (got, given) = (View::unpacked(rest)?, strip(at));
        let sides = |view: &View<'_>| (view.width, view.height);
        ensure!(sides(&got) == sides(&given), "strip {at} is of another image");
        coded[at] = jpeg.to_vec();
        let begin = at * rows * 3 * image.width;
        pixels[begin..begin + got.pixels.len()].copy_from_slice(got.pixels);
    }
    for to in coders {
        exchange.send(to, RAW, &[])?;
    }
    let jpeg = join(&coded, image.height)?;
    Ok(Assembled { jpeg, image: Image { pixels, ..*image } })
}

fn picture(args: &JpegArgs) -> anyhow::Result<Image> {
    let Some(path) = &args.image else { return Image::made_up(args.size[0], args.size[1]) };
    let len = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let most = 3 * PIXELS_MAX as u64 + 4096;
    ensure!(len <= most, "{} has {len} bytes, at most {most}", path.display());
    Image::read_ppm(&std::fs::read(path)?).with_context(|| path.display().to_string())
}

/// The whole demonstration; the root gets the report.
pub(crate) fn jpeg(exchange: &mut dyn Exchange, args: &JpegArgs) -> anyhow::Result<Option<Report>> {
    let image = if exchange.rank() == 0 { Some(picture(args)?) } else { None };
    exchange.begin();
    let mut clock = Clock::new();
    let done = pipeline(exchange, image.as_ref(), args.quality, args.rows, &mut clock)?;
    exchange.done();
    let clocks = exchange.gather_counts(0, &clock.words(), &vec![2; exchange.size()])?;
    let (Some(done), Some(clocks), Some(image)) = (done, clocks, image) else { return Ok(None) };
    let (raw, coded) = (image.pixels.len(), done.jpeg.len());
    let lead = format!(
        "{} x {} pixels at quality {}, strips of {} rows, {} tasks",
        image.width,
        image.height,
        args.quality,
        args.rows,
        exchange.size()
    );
    let mut report = Report::new("Parallel JPEG", &lead);
    let ratio = raw as f64 / coded as f64;
    let psnr = image.psnr(&done.image);
    report.say("Size", &format!("{raw} bytes become {coded}: {ratio:.1} : 1, PSNR {psnr:.2} dB"));
    report.say("Busy", &busy(&clocks));
    let mut table = Table::new(&[
        Column::words("link", "link"),
        Column::figures("raw", "raw_s"),
        Column::figures("compressed", "compressed_s"),
    ]);
    for (name, rate) in LINKS {
        let time = |bytes: usize| {
            let seconds = bytes as f64 * 8.0 / rate;
            (towpath_report::units::time_text(seconds), format!("{seconds:.6}"))
        };
        table.push(vec![(name.to_owned(), name.to_owned()), time(raw), time(coded)]);
    }
    report.table("What the bytes alone take", &table);
    let grey = |p: &[u8]| f64::from(p[1]);
    let values = done.image.pixels.chunks_exact(3).map(grey).collect();
    report.field("Decompressed", &Field::new(done.image.width, values));
    if let Some(path) = &args.file {
        towpath_report::files::write_file(path, &done.jpeg)?;
    }
    report.file("picture.jpg", done.jpeg);
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    fn piped(size: usize, image: &Image, rows: usize) -> anyhow::Result<Assembled> {
        let all = run(size, |exchange| {
            let own = (exchange.rank() == 0).then_some(image);
            pipeline(exchange, own, 75, rows, &mut Clock::new())
        });
        let mut results = all.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        Ok(results.swap_remove(0).expect("the root's"))
    }

    #[test]
    fn any_number_of_tasks_makes_the_same_file() {
        let image = Image::made_up(200, 397).unwrap();
        let whole = encode(&image.view(), 75).unwrap();
        for size in [1, 2, 3, 4, 7, 8] {
            let done = piped(size, &image, 32).unwrap();
            assert!(done.jpeg == whole, "{size} tasks");
            assert_eq!((done.image.width, done.image.height), (200, 397));
            assert!(image.psnr(&done.image) > 28.0);
        }
        let high = piped(3, &image, 4096).unwrap();
        assert!(high.jpeg == whole, "one strip");
    }

    #[test]
    fn stages_are_busy_for_a_part_of_the_time_of_the_root() {
        assert_eq!(busy(&[5, 9]), "one task does all");
        let ms =
            |times: [[u64; 2]; 5]| times.as_flattened().iter().map(|t| t * 1_000_000).collect();
        // Two compress, two decompress; all of them are done a little before the root.
        let clocks: Vec<u64> = ms([[40, 200], [190, 195], [186, 195], [50, 195], [30, 195]]);
        let said = busy(&clocks);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("1 reads and assembles: 20 % of 200"), "{said}");
        assert!(lines[1].starts_with("2 compress: 94 % of 200"), "{said}");
        assert!(lines[2].starts_with("2 decompress: 20 % of 200"), "{said}");
        let both = busy(&[1, 4, 3, 4]);
        assert!(both.contains("1 compresses and decompresses: 75 %"), "{both}");
    }

    #[test]
    fn a_clock_tells_work_from_waiting() {
        let mut clock = Clock::new();
        let until = |span: Duration| {
            let begun = Instant::now();
            while begun.elapsed() < span {}
        };
        until(Duration::from_millis(2));
        clock.waiting(|| until(Duration::from_millis(3)));
        let [work, all] = clock.words();
        assert!(work >= 2_000_000 && all >= work + 3_000_000, "{work} of {all}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let image = Image::made_up(20, 20).unwrap();
        let said = piped(2, &image, 10).map(drop).unwrap_err().to_string();
        assert_eq!(said, "strips of 10 rows: a multiple of 16");
        assert!(Image::made_up(0, 5).is_err());
    }

    #[test]
    fn a_task_that_ends_ends_the_work() {
        let image = Image::made_up(64, 640).unwrap();
        let all = run(4, |exchange| {
            if exchange.rank() == 3 {
                anyhow::bail!("killed");
            }
            let own = (exchange.rank() == 0).then_some(&image);
            pipeline(exchange, own, 75, 16, &mut Clock::new()).map(drop)
        });
        let said = all[0].as_ref().unwrap_err().to_string();
        assert!(said.contains("ended"), "{said}");
    }
}
