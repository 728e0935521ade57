//! A specification of any numbers: an error, or a model whose buckets and regulator agree with it.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use towpath_qos::spec::wire::Framing;
use towpath_qos::spec::{Regulator, TSpec, TSpecForm};
use towpath_wire::{ByteSize, Instant};

#[derive(Arbitrary, Debug)]
enum Form {
    Spaced(u64, u64),
    Averaged(u64, u64, u64, u64),
    SigmaRho(u64, u64),
    TokenBucket(u64, u64, u64, u64, u64),
    DBind(Vec<(u64, u64)>, u64),
    PeakMean(u64, u64, u64, u64),
    Schedule(Vec<(u64, u64)>, u64),
}

fn form(form: Form) -> TSpecForm {
    match form {
        Form::Spaced(xmin_ns, smax_bytes) => TSpecForm::Spaced { xmin_ns, smax_bytes },
        Form::Averaged(xmin_ns, xave_ns, interval_ns, smax_bytes) => {
            TSpecForm::Averaged { xmin_ns, xave_ns, interval_ns, smax_bytes }
        }
        Form::SigmaRho(sigma_bytes, rho_bps) => TSpecForm::SigmaRho { sigma_bytes, rho_bps },
        Form::TokenBucket(rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes) => {
            TSpecForm::TokenBucket { rate_bps, burst_bytes, peak_bps, min_bytes, max_bytes }
        }
        Form::DBind(pairs, max_bytes) => TSpecForm::DBind { pairs, max_bytes },
        Form::PeakMean(peak_bps, mean_bps, burst_bytes, max_bytes) => {
            TSpecForm::PeakMean { peak_bps, mean_bps, burst_bytes, max_bytes }
        }
        Form::Schedule(points, max_bytes) => TSpecForm::Schedule { points, max_bytes },
    }
}

fuzz_target!(|input: (Form, Vec<(u64, u64)>)| {
    let (raw, packets) = input;
    let Ok(spec) = TSpec::try_from(form(raw)) else { return };
    let mut regulator = Regulator::new(&spec);
    let (mut first, mut bits) = (None, 0_u128);
    for (at, size) in packets {
        assert!(spec.buckets().bits_in(at) >= spec.bits_in(at));
        let size = ByteSize::from_bytes(size);
        let Some(left) = regulator.reserve(Instant::from_nanos(at), size) else { continue };
        assert!(left.as_nanos() >= at);
        let from = *first.get_or_insert(left);
        bits += u128::from(size.as_bytes()) * 8;
        if left >= from {
            assert!(bits <= spec.bits_in(left.as_nanos() - from.as_nanos()));
        }
    }
    let _ = Framing::default().demand(&spec, ByteSize::from_bytes(1));
});
