//! What is not to leave before an instant does not.

use crate::hosts::{Vm, ms};

#[test]
fn what_is_planned_ahead_leaves_then_and_no_sooner_and_what_is_behind_it_follows() {
    let mut vm = Vm::up(2);
    let (a, b) = (vm.enrol(1), vm.enrol(0));
    assert!(vm.send(1, a, b, 0, 10));
    vm.run(ms(100));
    assert_eq!(vm.seqs(b), [0]);
    vm.world.set_ahead(1, ms(40));
    assert!(vm.send(1, a, b, 1, 10));
    vm.run(ms(20));
    assert!(vm.send(1, a, b, 2, 10));
    vm.run(ms(19));
    assert_eq!(vm.seqs(b), [0; 0], "it has not left");
    vm.run(ms(5));
    assert_eq!(vm.seqs(b), [1], "it has, and the next one is granted now");
    vm.run(ms(30));
    assert_eq!(vm.seqs(b), [0; 0]);
    vm.run(ms(60));
    assert_eq!(vm.seqs(b), [2]);
    // At once again.
    vm.world.set_ahead(1, ms(0));
    vm.run(ms(100));
    assert!(vm.send(1, a, b, 3, 10));
    vm.run(ms(5));
    assert_eq!(vm.seqs(b), [3]);
}
