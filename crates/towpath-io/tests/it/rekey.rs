//! Real keys change under load, loss and faults as the stand-in's do.

use towpath_io::RealCrypto;
use towpath_proto::{Crypto, Rng};
use towpath_sim::{Scenario, run};

fn real(rng: Rng) -> Box<dyn Crypto> {
    Box::new(RealCrypto::seeded(rng))
}

#[test]
fn swarms_with_real_keys_that_soon_wear_out_keep_every_promise() {
    let mut most = 0;
    for seed in 0..4 {
        let outcome = run(&Scenario::default(), seed, &real, &|c| c.rekey.packets = 4);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
        most = most.max(outcome.key_updates);
    }
    assert!(most > 100, "{most} epochs");
}
