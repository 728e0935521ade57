//! What `farm` does with its command line.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use towpath::VmDir;
use towpath::farm::{
    Blocks, FarmError, FarmOptions, Form, Items, Outcome, Printer, Report, Separator, Source,
    Steady, Template, combined, grouped, run as run_farm, separated,
};
use towpath::private::create_result;

use super::args::{FarmArgs, InputArgs, OutputArgs, When};
use super::job::Sources;
use super::screen::{Meter, Screen};
use super::words::{Given, Words};
use crate::{control, jobs};

/// Exit status when whoever read the output closed it: 128 + SIGPIPE.
const OUTPUT_CLOSED: u8 = 141;

/// Runs the farm through the first of this machine's daemons that answers. Gives the exit status;
/// an error means 255.
pub(crate) fn run(vm: &VmDir, args: &FarmArgs) -> anyhow::Result<u8> {
    if args.by_itself.detach {
        return match jobs::client_of(vm)? {
            Some(job) => super::job::run(vm, args, &job),
            None => super::job::detach(vm, args),
        };
    }
    let sockets = control::sockets(vm)?;
    let mut options = options(args, &Sources::new(None))?;
    if args.running.dry_run {
        return dry_run(&options);
    }
    // Before anything runs, so that a report that cannot be written costs no work.
    let report_file = match &args.output.report {
        Some(path) => Some(create_result(path).map_err(|e| report_error(path, &e))?),
        None => None,
    };
    let [interrupt, at_once] = crate::interrupt::twice()?;
    options.at_once = at_once;
    let OutputArgs { progress, eta, .. } = args.output;
    let progress = if eta { When::Always } else { progress };
    let mut screen = Screen {
        printer: Printer::new(
            form(args),
            Steady::new(io::stdout(), &interrupt),
            Steady::new(io::stderr(), &interrupt),
        ),
        meter: Meter::new(progress, options.items.len().into()),
        out_is_terminal: io::stdout().is_terminal(),
        mark: None,
    };
    let Outcome { report, error } = run_farm(&options, &sockets, &mut screen, &interrupt);
    let shown = screen.meter.finish();
    if let (Some(mut file), Some(path)) = (report_file, &args.output.report) {
        write_report(&mut file, &report).map_err(|e| report_error(path, &e))?;
    }
    if matches!(error, Some(FarmError::OutputClosed)) {
        return Ok(OUTPUT_CLOSED);
    }
    let printed = screen.finish(&report);
    tell(&report, shown);
    match (error, printed) {
        // With its text only: the texts of its sources are in it.
        (Some(e), _) => Err(anyhow!("{e}")),
        (None, Err(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(OUTPUT_CLOSED),
        (None, Err(e)) if e.kind() != io::ErrorKind::TimedOut => {
            Err(e).context("cannot write output")
        }
        (None, _) => Ok(report.exit_status()),
    }
}

/// Says in words what became of it, where there is more to say than that all went well.
pub(super) fn tell(report: &Report, shown: bool) {
    if shown || report.failed + report.not_run + report.host_lost_reruns > 0 {
        eprintln!("{}", summary(report));
    }
}

pub(super) fn form(args: &FarmArgs) -> Form {
    match (args.output.json, args.output.tag) {
        (true, _) => Form::Json,
        (_, true) => Form::Tagged,
        _ => Form::Plain,
    }
}

fn write_report(file: &mut File, report: &Report) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *file, report)?;
    file.write_all(b"\n")
}

fn report_error(path: &std::path::Path, e: &io::Error) -> anyhow::Error {
    anyhow!(
        "cannot write the report {}: {e}\nhint: give another file with --report",
        path.display()
    )
}

fn summary(r: &Report) -> String {
    let mut text = format!("{} of {} items succeeded", r.succeeded, r.items - r.skipped);
    for (count, what) in [
        (r.failed, "failed"),
        (r.not_run, "not run"),
        (r.skipped, "done before"),
        (r.host_lost_reruns, "ran again after a host was lost or refused them"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    if r.interrupted {
        text.push_str(", interrupted");
    }
    if let Some(rule) = &r.halted {
        let _ = write!(text, ", ended by --halt {rule}");
    }
    format!("{text}; {:.1} s, {:.1} items/s", r.elapsed_s, r.items_per_s)
}

pub(super) fn options(args: &FarmArgs, sources: &Sources<'_>) -> anyhow::Result<FarmOptions> {
    let FarmArgs { input, running, output, command, by_itself: _ } = args;
    let words = Words::of(command)?;
    let command: Vec<_> = words.command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let new = match (input.pipe, input.plain_braces) {
        (true, _) => Template::of_input,
        (_, true) => Template::plain,
        _ => Template::new,
    };
    let template = new(&command)?;
    let pipe = if input.pipe { Some(blocks(input, &words.given, sources)?) } else { None };
    let items = match &pipe {
        Some(blocks) => blocks.items()?,
        None => items(input, &words.given, sources)?,
    };
    template.check(&items, input.group.is_some())?;
    let workdir = match &running.workdir {
        Some(dir) => dir.clone(),
        None => std::env::current_dir().context("this directory")?.into_os_string(),
    };
    Ok(FarmOptions {
        template,
        items,
        pipe,
        hosts: running.host.clone(),
        jobs: running.jobs,
        timeout: running.timeout,
        retries: running.retries,
        retry_failed: running.retry_failed,
        delay: running.delay.unwrap_or_default(),
        halt: running.halt.and_then(|rule| rule.0),
        results: output.results.as_deref().map(results).transpose()?,
        keep_order: output.keep_order,
        joblog: output.joblog.clone(),
        resume: output.resume,
        goes_on: None,
        rerun_changed: output.rerun_changed,
        at_once: Arc::default(),
        env: running.env.iter().map(variable).collect::<anyhow::Result<_>>()?,
        workdir: workdir.into_vec(),
    })
}

/// What GNU parallel takes for something else than a directory is refused.
fn results(dir: &Path) -> anyhow::Result<PathBuf> {
    let name = dir.to_string_lossy();
    if name.contains('{') {
        bail!(
            "--results {name}: names made of placeholders are not supported\n\
             hint: give a directory; in it, each item has DIR/1/ITEM/stdout"
        );
    }
    if [".csv", ".tsv", ".json"].iter().any(|end| name.ends_with(end)) {
        bail!(
            "--results {name}: a table is not written, only a directory\n\
             hint: --json has one object per item; --joblog a line"
        );
    }
    Ok(dir.to_path_buf())
}

fn variable(setting: &OsString) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let bytes = setting.as_bytes();
    if let Some(at) = bytes.iter().position(|b| *b == b'=') {
        return Ok((bytes[..at].to_vec(), bytes[at + 1..].to_vec()));
    }
    match std::env::var_os(setting) {
        Some(value) => Ok((bytes.to_vec(), value.into_vec())),
        None => bail!(
            "--env {name}: not set here\nhint: set it, or give --env {name}=VALUE",
            name = setting.display()
        ),
    }
}

fn items(args: &InputArgs, given: &[Given<'_>], from: &Sources<'_>) -> anyhow::Result<Items> {
    if !given.is_empty() && !args.arg_file.is_empty() {
        bail!("items both after ::: and in --arg-file\nhint: leave one of the two out");
    }
    let separator = if args.null { Separator::Nul } else { Separator::Line };
    let mut sources = vec![];
    for Given { words, files, linked } in given {
        if *files {
            for file in *words {
                let items = from.read(Path::new(file), separator)?;
                sources.push(Source { items, linked: *linked });
            }
        } else {
            let mut items = Items::default();
            for item in *words {
                items.push(item.as_bytes())?;
            }
            sources.push(Source { items, linked: *linked });
        }
    }
    for file in &args.arg_file {
        sources.push(Source { items: from.read(file, separator)?, linked: false });
    }
    if sources.is_empty() {
        sources.push(Source { items: from.read(Path::new("-"), separator)?, linked: false });
    }
    if args.group.is_some() && sources.len() > 1 {
        bail!("-N with several sources\nhint: -N takes the items of one source together");
    }
    if let Some(by) = &args.colsep {
        for source in &mut sources {
            source.items = separated(&source.items, by)?;
        }
    }
    let items = combined(sources)?;
    Ok(match args.group {
        Some(size) => grouped(&items, size)?,
        None => items,
    })
}

/// Standard input as the inputs of commands.
fn blocks(args: &InputArgs, given: &[Given<'_>], from: &Sources<'_>) -> anyhow::Result<Blocks> {
    if !given.is_empty() {
        bail!("--pipe with items after :::\nhint: its items are blocks of standard input");
    }
    let (mut input, name) = from.open(Path::new("-"))?;
    Ok(Blocks::read(&mut input, &name, args.block)?)
}

fn dry_run(options: &FarmOptions) -> anyhow::Result<u8> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut print = || -> io::Result<()> {
        for index in 0..options.items.len() {
            let item = options.items.at(index);
            out.write_all(&options.template.command_line(item, u64::from(index) + 1))?;
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    match print() {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(OUTPUT_CLOSED),
        other => other.map(|()| 0).context("cannot write output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use towpath::farm::Item;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        farm: FarmArgs,
    }

    fn parse(words: &[&str]) -> Result<FarmOptions, String> {
        let cli = Cli::try_parse_from([&["farm"], words].concat()).map_err(|e| e.to_string())?;
        options(&cli.farm, &Sources::new(None)).map_err(|e| e.to_string())
    }

    fn listed(options: &FarmOptions) -> Vec<String> {
        options.items.iter().map(|i| String::from_utf8_lossy(&i.text()).into_owned()).collect()
    }

    #[test]
    fn options_of_the_command_are_its_own() {
        let farm = parse(&["-k", "-j2", "gzip", "-k", "-0", "{}", ":::", "a", "-b"]).unwrap();
        assert_eq!(farm.template.expand(Item::of(b"x"), 1), [&b"gzip"[..], b"-k", b"-0", b"x"]);
        assert_eq!(listed(&farm), ["a", "-b"]);
        assert_eq!((farm.keep_order, farm.jobs), (true, Some(2)));
        let dashes = parse(&["--", "sh", "-c", "x", ":::"]).unwrap();
        assert_eq!(dashes.template.expand(Item::of(b"i"), 1), [&b"sh"[..], b"-c", b"x", b"i"]);
        assert!(dashes.items.is_empty());
    }

    #[test]
    fn mistakes_have_hints() {
        for (words, part) in [
            (&["x", ":::", "a\0b"][..], "hint:"),
            (&["-a", "/nonexistent", "x"], "/nonexistent"),
            (&["-a", "/etc/passwd", "x", ":::", "a"], "hint:"),
            (&["--env", "TOWPATH_NOT_SET", "x", ":::"], "hint:"),
            (&["--resume", "x", ":::"], "--joblog"),
            (&[":::", "a"], "no command"),
            (&["x", "{1}{2}", ":::", "a"], "`{2}` of the command"),
            (&["grep", "a{5}", ":::", "a"], "--plain-braces"),
            (&["x", "{%}", ":::", "a"], "hint:"),
            (&["-N2", "x", ":::", "a", ":::", "b"], "hint:"),
            (&["--colsep", "[,;]", "x", ":::"], "regular expressions"),
            (&["--halt", "2", "x", ":::"], "now,fail=1"),
            (&["--results", "r/{1}", "x", ":::"], "hint:"),
            (&["--results", "r.csv", "x", ":::"], "hint:"),
        ] {
            let err = parse(words).unwrap_err();
            assert!(err.contains(part), "{words:?}: {err}");
        }
    }

    #[test]
    fn sources_are_combined_linked_parted_and_grouped() {
        let items = |words: &[&str]| listed(&parse(words).unwrap());
        assert_eq!(items(&["x", ":::", "a", "b", ":::", "1", "2"]), ["a 1", "a 2", "b 1", "b 2"]);
        assert_eq!(items(&["x", ":::", "a", "b", ":::+", "1", "2"]), ["a 1", "b 2"]);
        assert_eq!(items(&["-N", "2", "x", ":::", "a", "b", "c"]), ["a b", "c"]);
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        std::fs::write(&one, "a,b\nc,d\n").unwrap();
        std::fs::write(&two, "x\ny\n").unwrap();
        let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
        assert_eq!(items(&["-C,", "x", "{2}", "::::", one]), ["a b", "c d"]);
        let all = ["a,b x", "a,b y", "c,d x", "c,d y"];
        assert_eq!(items(&["x", "::::", one, two]), all);
        assert_eq!(items(&["-a", one, "-a", two, "x"]), all);
        assert_eq!(items(&["x", "::::", one, "::::+", two]), ["a,b x", "c,d y"]);
    }

    #[test]
    fn a_variable_is_set_or_passed_on() {
        let pair = |s: &str| variable(&OsString::from(s)).unwrap();
        assert_eq!(pair("A=b=c"), (b"A".to_vec(), b"b=c".to_vec()));
        assert_eq!(pair("PATH").0, b"PATH");
    }
}
