//! Against data/field/two_slots.csv (numpy, 3000 modes, 32 and 64 pulses agree to 4.3e-5), and
//! against limits that are known in closed form.

use rustfft::num_complex::Complex64 as C;

use super::demo::solved;
use super::slots::{ETA, LIGHT, Network, Slots, SlotsError, Solution};
use crate::exchange::local::run;

const CASES: &str = include_str!("../../data/field/two_slots.csv");

fn solution(slots: &Slots) -> Solution {
    run(1, |exchange| solved(exchange, slots)).swap_remove(0).unwrap()
}

fn slots(width: f64, distance: f64, network: Network) -> Slots {
    let slots = Slots {
        wavelength: 1.0,
        width,
        distance,
        permittivity: 1.0,
        angle: 1.0,
        load: network.admittance(1.0),
        pulses: 24,
    };
    slots.checked().unwrap()
}

fn network(name: &str) -> Network {
    match name {
        "matched" => Network::Matched,
        "unequal" => Network::Unequal,
        "reactive" => Network::Reactive,
        "line" => Network::Line,
        _ => Network::Pi,
    }
}

#[test]
fn the_given_cases() {
    let mut count = 0;
    for line in CASES.lines().skip(1) {
        let (load, rest) = line.split_once(',').unwrap();
        let cells: Vec<f64> = rest.split(',').map(|c| c.parse().unwrap()).collect();
        let complex = |at: usize| C::new(cells[at], cells[at + 1]);
        let er = cells[2];
        let slots = Slots {
            wavelength: 0.03,
            width: cells[0] * 0.03,
            distance: cells[1] * 0.03,
            permittivity: er,
            angle: cells[3].to_radians(),
            load: network(load).admittance(er),
            pulses: 32,
        };
        for (s, t) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let given = complex(4 + 4 * s + 2 * t);
            assert!((slots.load[s][t] - given).norm() < 1e-9, "{load} {s} {t}: {given}");
        }
        let got = solution(&slots.clone().checked().unwrap());
        // Volts are given for 10 GHz: lengths scale with the wavelength.
        let scale = LIGHT / 1e10 / 0.03;
        let volts = [complex(12), complex(14)];
        let largest = volts.iter().map(|v| v.norm()).fold(0.0, f64::max);
        for (got, right) in got.volts.iter().zip(volts) {
            assert!((got * scale - right).norm() < 1e-3 * largest, "{line}: {got} {right}");
        }
        let powers = [got.scattered * scale, got.loaded * scale];
        for (got, right) in powers.iter().zip(&cells[16..18]) {
            assert!((got - right).abs() < 1e-3 * (cells[16] + cells[17]), "{got} {right}");
        }
        let pattern: Vec<C> = (0..19).map(|at| complex(18 + 2 * at)).collect();
        let largest = pattern.iter().map(|f| f.norm()).fold(0.0, f64::max);
        for (at, right) in pattern.iter().enumerate() {
            let far = got.far((at as f64 * 10.0).to_radians());
            assert!((far - right).norm() < 1e-3 * largest, "{line}: {far} {right}");
        }
        count += 1;
    }
    assert_eq!(count, 15);
}

#[test]
fn power_is_neither_made_nor_lost() {
    for network in
        [Network::Matched, Network::Unequal, Network::Reactive, Network::Line, Network::Pi]
    {
        let got = solution(&slots(0.15, 0.6, network));
        assert!(got.imbalance().abs() < 1e-12, "{network:?}: {}", got.imbalance());
        // What flows through the far half circle: (η/πk)∫|F|²; the trapezium is exact for it.
        let k = std::f64::consts::TAU;
        let steps = 720;
        let mean = (0..steps)
            .map(|at| got.far((f64::from(at) + 0.5) / f64::from(steps) * std::f64::consts::PI))
            .map(|f| f.norm_sqr())
            .sum::<f64>()
            / f64::from(steps);
        let radiated = mean * ETA / k;
        assert!((radiated / got.scattered - 1.0).abs() < 1e-9, "{radiated} {}", got.scattered);
        if matches!(network, Network::Reactive | Network::Line) {
            assert!(got.loaded.abs() < 1e-12 * got.scattered);
        }
    }
}

#[test]
fn one_uniform_slot_has_its_admittance() {
    // Y λ η = π (1 - (kw)²/24) + j (2 (1.5 + ln 2 - γ) - 2 ln kw) for E the same all over it.
    let w = 0.002;
    let k = std::f64::consts::TAU;
    let y = super::kernel::over(k, [0.0, w], [0.0, w]) * (k / (2.0 * ETA)) / (w * w) * ETA;
    let imaginary = 2.0 * (1.5 + 2.0_f64.ln() - 0.577_215_664_901_532_9) - 2.0 * (k * w).ln();
    assert!((y.re - std::f64::consts::PI * (1.0 - (k * w).powi(2) / 24.0)).abs() < 1e-6, "{y}");
    assert!((y.im - imaginary).abs() < 1e-3, "{y} {imaginary}");
}

#[test]
fn slots_far_apart_do_not_know_of_each_other() {
    // A wave from straight above drives both alike; what is left is the coupling, as 1/√d.
    let coupling = |distance: f64| {
        let far = |d| {
            solution(&Slots {
                angle: std::f64::consts::FRAC_PI_2,
                ..slots(0.1, d, Network::Matched)
            })
        };
        (far(distance).volts[0] - far(900.0).volts[0]).norm()
    };
    let (near, further) = (coupling(1.0), coupling(40.0));
    assert!(further < 0.25 * near, "{near} {further}");
}

#[test]
fn what_one_slot_sends_the_other_receives_alike() {
    // Reciprocity: with equal loads the mirrored wave gives the mirrored voltages.
    let one = solution(&slots(0.1, 0.5, Network::Pi));
    let angle = std::f64::consts::PI - 1.0;
    let mirrored = solution(&Slots { angle, ..slots(0.1, 0.5, Network::Pi) });
    assert!((one.volts[0] - mirrored.volts[1]).norm() < 1e-12 * one.volts[0].norm());
}

#[test]
fn any_number_of_tasks_gives_the_same_bits() {
    let case = slots(0.2, 0.9, Network::Line);
    let one = solution(&case).volts;
    for size in [2, 3, 4, 7, 8] {
        for got in run(size, |exchange| Ok(solved(exchange, &case)?.volts)) {
            assert_eq!(got.unwrap(), one);
        }
    }
}

#[test]
fn what_cannot_be_is_named() {
    let good = slots(0.1, 0.5, Network::Matched);
    let said = |slots: Slots| slots.checked().unwrap_err();
    assert_eq!(said(Slots { width: 0.0, ..good.clone() }).name, "the slots' width");
    assert_eq!(said(Slots { pulses: 0, ..good.clone() }).name, "the number of pulses");
    let nan = said(Slots { angle: f64::NAN, ..good.clone() });
    assert_eq!(nan.to_string(), "the angle is NaN: it must be a turn at most");
    let close: SlotsError = said(Slots { distance: 0.05, ..good });
    assert_eq!(close.limit, "more than a width");
}
