//! The applications as jobs of a virtual machine: `towpath demo`, and `towpath run` of the program.

use std::path::PathBuf;
use std::process::Output;

use crate::support::{Vm, built, text};

pub(crate) fn program() -> PathBuf {
    built::built(&["towpath-apps"], &["-p", "towpath-apps", "--bin", "towpath-apps"])
}

fn said(out: &Output) -> String {
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

#[test]
fn each_application_runs_as_a_job_and_says_what_threads_say() {
    let program = program();
    let vm = Vm::up(2);
    for words in [
        &["options"][..],
        &["market", "--trades", "3000"],
        &["field", "--map", "40"],
        &["tracker", "--targets", "12"],
        &["jpeg", "--size", "120", "100"],
        &["fractal", "--columns", "60"],
        &["tornado", "--side", "40"],
        &["chemistry", "--side", "16"],
        &["radar", "--cylinders", "20"],
        &["kernel", "fft", "--size", "32"],
        &["kernel", "lu", "--size", "70"],
        &["kernel", "matmul", "--size", "70"],
        &["kernel", "nbody", "--size", "50"],
        &["kernel", "ep", "--size", "17"],
        &["kernel", "sort", "--size", "5000"],
        &["kernel", "tsp", "--size", "9"],
        &["kernel", "hough", "--size", "100"],
        &["example", "raytrace", "--columns", "60"],
        &["example", "compress"],
        &["example", "keysearch", "--bits", "14"],
        &["example", "knapsack"],
        &["example", "queens"],
        &["example", "search"],
        &["example", "spell"],
    ] {
        // What a run says of its own time is not the same twice.
        let still = |text: String| {
            let units = ["ns", "µs", "ms", " s"];
            let untimed = |line: &&str| {
                !line.contains("a second") && !units.iter().any(|unit| line.ends_with(unit))
            };
            text.lines().filter(untimed).map(str::to_owned).collect::<Vec<_>>()
        };
        let job = said(&vm.command(&["demo", "-n", "3"]).args(words).output().unwrap());
        let threads = vm.command(&["demo", "--threads", "-n", "3"]).args(words).output().unwrap();
        assert_eq!(still(job.clone()), still(said(&threads)), "{words:?}");
        assert!(job.contains("3 tasks"), "{job}");
    }
    let page = vm.file("page");
    let mut run = vm.command(&["run", "-n", "2", "--"]);
    run.arg(&program).arg("--out").arg(&page).args(["tracker", "--targets", "5"]);
    said(&run.output().unwrap());
    let html = std::fs::read_to_string(page.join("index.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("Tracker"));
    let tracks = std::fs::read_to_string(page.join("tracks.csv")).unwrap();
    assert!(tracks.starts_with("scan,first_0,first_1,x_km"), "{tracks}");
}

#[test]
fn bad_values_end_the_job_with_the_reason() {
    program();
    let vm = Vm::up(1);
    for (words, why) in [
        (&["options", "--volatility", "NaN"][..], "the volatility is NaN"),
        (&["tracker", "--targets", "1000000000"], "1000000000 targets: at most 10000"),
        (&["jpeg", "--size", "0", "5"], "an image of 0 x 5 pixels"),
        (&["field", "--width", "0"], "the slots' width is 0"),
    ] {
        let out = vm.command(&["demo", "-n", "2"]).args(words).output().unwrap();
        assert!(!out.status.success());
        assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
    }
}
