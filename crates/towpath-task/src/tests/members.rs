//! What a task keeps of members of its teams.

use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent};

use super::actors::enrol;
use super::stage::{Heard, Stage};
use crate::team_error::TeamError;

#[test]
fn nothing_is_kept_of_members_that_have_ended() {
    let (mut task, mut side) = enrol(&mut Stage::new(), 1);
    let host = towpath_wire::HostId::new(2, 1).unwrap();
    for n in 1..=50 {
        let peer = host.task(n).unwrap();
        let mut first = task.team_of(&[task.id(), peer]).unwrap();
        let mut second = task.team_of(&[peer, task.id()]).unwrap();
        let Heard::Control(ToDaemon::Watch { watch, .. }) = side.hear() else { panic!("no watch") };
        let event = WatchEvent::TaskEnded { task: peer, ending: None };
        side.say(&ToTask::Notice { watch, event });
        for team in [&mut first, &mut second] {
            let lost = team.barrier(&mut task);
            assert!(matches!(lost, Err(TeamError::Collective(_))), "{lost:?}");
        }
        assert_eq!(task.ends.kept(), 0);
        while side.heard().is_some() {}
    }
}
