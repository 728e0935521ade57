//! Several hosts that keep the log, each on a disk of its own, and a virtual machine that begins
//! again with what one of them has.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use towpath_proto::{HostKey, Rng};
use towpath_vm::HostState;
use towpath_vm::talk::{
    Answer, Fault, MailRules, Question, RegistryAnswer, RegistryOp, ToDaemon, ToTask,
};
use towpath_wire::TaskId;

use super::disk::Disk;
use super::net::{Net, VM_KEY, addr, config};
use super::standin::StandIn;
use super::voting::{leader, leaders, sharing};
use crate::{Node, NodeConfig, NodeEvent, Saved, SavedError};

pub(super) fn keeping(index: usize) -> NodeConfig {
    NodeConfig { keeps_table: true, ..sharing(index) }
}

/// So many hosts with a disk each; three of them keep the log.
fn net(hosts: usize) -> Net {
    net_of(hosts, 3)
}

/// The same, where so many are to.
pub(super) fn net_of(hosts: usize, voters: u8) -> Net {
    let mut net = Net::founded(NodeConfig { voters, ..keeping(0) });
    net.seats[0].disk = Some(Disk::new());
    for index in 1..hosts {
        net.add(keeping(index));
        net.seats[index].disk = Some(Disk::new());
        net.run(100);
    }
    net.node(0).kept(u64::MAX);
    net.run(1000);
    assert_eq!(net.node(0).voters().0.len(), usize::from(voters));
    net
}

pub(super) fn put(name: &str) -> Question {
    let rules = MailRules { persistent: true, ..MailRules::default() };
    let content = name.as_bytes().to_vec();
    Question::Registry(RegistryOp::Put {
        name: name.into(),
        index: None,
        rules,
        format: 0,
        content,
    })
}

/// The mailboxes, as a task of this host is told.
pub(super) fn boxes(net: &mut Net, host: usize, task: TaskId) -> Vec<alloc::string::String> {
    let asked =
        net.ask(host, task, Question::Registry(RegistryOp::Mailboxes { pattern: "*".into() }));
    match asked {
        Ok(Answer::Registry(RegistryAnswer::Mailboxes(boxes))) => {
            boxes.into_iter().map(|mailbox| mailbox.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// What a host has on its disk: the table as of now, and what was written.
pub(super) fn saved(net: &mut Net, host: usize) -> Saved {
    let mut saved = net.node(host).saved().expect("it keeps the log");
    let life = net.node(host).log_name().expect("it keeps the log").0;
    let disk = net.seats[host].disk.as_ref().expect("it has one");
    assert_eq!(saved.remember(life, &disk.stored), Ok(true));
    saved
}

pub(super) fn start(net: &mut Net, host: usize, saved: Saved) -> Result<(), SavedError> {
    let (crypto, rng) = (Box::new(StandIn::new(host as u64 + 1)), Rng::new(78, 1));
    let node = Node::found_again(net.now, keeping(host), crypto, rng, VM_KEY, saved)?;
    (net.seats[host].node, net.seats[host].disk) = (Some(node), Some(Disk::new()));
    Ok(())
}

fn keys(net: &mut Net, hosts: &[usize]) -> Vec<HostKey> {
    hosts.iter().map(|host| net.node(*host).endpoint().public_key()).collect()
}

#[test]
fn a_virtual_machine_that_died_as_a_whole_begins_again_with_what_any_of_its_voters_wrote() {
    for begins in 0..3 {
        let mut net = net(3);
        let (one, two) = (net.enrol(1), net.enrol(2));
        for (host, task) in [(1, one), (2, two)] {
            net.ask(host, task, Question::Registry(RegistryOp::Join("g".into()))).expect("joins");
        }
        net.ask(1, one, put("left behind")).expect("it is put");
        let now = net.now;
        let tokens = net.node(0).invitations(now);
        assert!(!tokens.is_empty());
        let all = [0, 1, 2].map(|host| saved(&mut net, host));
        let keys = keys(&mut net, &[0, 1, 2]);
        assert!(all.iter().all(|saved| saved.are_all(&keys) && !saved.are_all(&keys[..2])));
        assert!(all.iter().all(Saved::is_shared));
        for host in 0..3 {
            net.crash(host);
        }
        net.run(5000);
        let [mine] = &all[begins..=begins] else { unreachable!() };
        assert!(!mine.kept_to().is_beyond(&mine.kept_to()));
        start(&mut net, begins, mine.clone().let_in().alone()).expect("it is its own");
        net.run(4000);
        assert!(net.node(begins).leads());
        let (own, now) = (net.enrol(begins), net.now);
        assert_eq!(boxes(&mut net, begins, own), ["left behind"]);
        assert_eq!(net.node(begins).invitations(now), tokens);
        // It goes further than all that there was.
        let after = saved(&mut net, begins).kept_to();
        assert!(all.iter().all(|before| after.is_beyond(&before.kept_to())));
        // Killed before its table has followed its journal it has that.
        let life = net.node(begins).log_name().expect("it leads").0;
        let disk = net.seats[begins].disk.as_ref().expect("it has one");
        let mut behind = mine.clone();
        assert_eq!(behind.remember(life, &disk.stored), Ok(true));
        assert_eq!(behind.kept_to(), after);
        // The others come back by what they kept, as other hosts.
        for host in (0..3).filter(|host| *host != begins) {
            start(&mut net, host, all[host].clone().let_in()).expect("it asks to be let in");
            net.run(6000);
        }
        assert_eq!(leader(&mut net), begins);
        let up = net.node(begins).hosts().filter(|h| h.state == HostState::Up).count();
        assert_eq!(up, 3);
        let group = net.ask(begins, own, Question::Registry(RegistryOp::Members("g".into())));
        assert!(matches!(group, Err(Fault::NoGroup)), "its tasks have ended: {group:?}");
        // One that was let in lets go of the key where it keeps the log no more.
        assert!((0..3).all(|host| net.node(host).keeps() && !net.node(host).is_founder()));
    }
}

#[test]
fn two_that_begin_again_apart_lead_in_different_terms() {
    let mut net = net(3);
    let both = [1, 2].map(|host| saved(&mut net, host));
    for host in 0..3 {
        net.crash(host);
    }
    net.cut(1, 2);
    for (host, saved) in [1, 2].into_iter().zip(both) {
        start(&mut net, host, saved.alone()).expect("it is its own");
    }
    net.run(30_000);
    let [one, two] = [1, 2].map(|host| net.node(host).saved().expect("it leads").snapshot.term);
    assert!(net.node(1).leads() && net.node(2).leads() && one != two, "{one} {two}");
}

#[test]
fn nothing_is_answered_before_most_of_those_that_vote_have_it_on_their_disks() {
    let mut net = net(3);
    let task = net.enrol(1);
    let asks = |net: &mut Net, name: &str| {
        net.serial += 1;
        let number = net.serial;
        net.says(1, task, ToDaemon::Ask { number, question: put(name) });
        net.run(200);
        number
    };
    let is_answered = |net: &mut Net, asked: u64| {
        let told = net.told(1, task);
        told.iter().any(
            |told| matches!(told, ToTask::Answer { number, answer: Ok(_) } if *number == asked),
        )
    };
    // The leader's own does not count more than another's.
    let mut disks = [0, 1, 2].map(|host| net.seats[host].disk.take().expect("it has one"));
    let first = asks(&mut net, "first");
    assert!(!is_answered(&mut net, first));
    assert!(net.node(0).waits_for_disk());
    for host in [1, 2] {
        disks[host].take(&mut net, host);
        disks[host].tell(&mut net, host);
    }
    net.run(200);
    assert!(is_answered(&mut net, first), "two of three have it");
    // They can write no more, and are not waited for.
    let second = asks(&mut net, "second");
    assert!(!is_answered(&mut net, second));
    for host in [1, 2] {
        net.call(host, |node, now, memory| node.wrote(now, None, memory));
    }
    net.run(200);
    assert!(is_answered(&mut net, second));
    // Once they can again, they have everything.
    let write = net.node(1).to_write().expect("it lacks something");
    assert!(write.replaces);
    disks[1].put(write);
    disks[1].take(&mut net, 1);
    let state = crate::ledger::Ledger::read(&disks[1].stored).expect("it decodes");
    assert!(state.registered().contains(&task));
    assert_eq!(net.node(1).to_write(), None);
}

#[test]
fn what_a_life_before_wrote_is_replaced_as_a_whole_by_the_first_snapshot() {
    let mut net = Net::founded(keeping(0));
    let first = net.node(0).to_write().expect("what it is founded with");
    assert!(first.replaces);
    net.seats[0].disk = Some(Disk::new());
    net.seats[0].disk.as_mut().expect("it has one").put(first);
    net.add(keeping(1));
    net.run(1000);
    let learner = net.node(1).to_write().expect("it was sent the state");
    assert!(learner.replaces, "{learner:?}");
    assert_eq!(net.node(0).voters().1, vec![net.id(1)]);
}

#[test]
fn a_journal_that_missed_the_last_election_is_of_the_table_beside_it() {
    let mut net = net(4);
    let task = net.enrol(3);
    net.ask(3, task, put("m")).expect("it is put");
    let life = net.node(1).log_name().expect("it votes").0;
    let voter = (1..4).find(|host| net.node(*host).log_name().is_some()).expect("one votes");
    let before = net.seats[voter].disk.as_ref().expect("it has one").stored.clone();
    net.crash(0);
    net.run(20_000);
    let leads = leader(&mut net);
    let mut after = net.node(leads).saved().expect("it leads");
    assert_eq!(after.remember(life, &before), Ok(true), "the last second is not on the disk");
    // Of a generation before it, it is not.
    let mut later = after.alone();
    assert_eq!(later.remember(life, &before), Ok(false));
}

/// All hosts die; gives what they have on their disks.
fn die(net: &mut Net) -> Vec<Saved> {
    let all = (0..net.seats.len()).map(|host| saved(net, host)).collect();
    for host in 0..net.seats.len() {
        net.crash(host);
    }
    net.run(5000);
    all
}

#[test]
fn where_all_that_voted_start_again_the_one_with_most_begins_by_itself() {
    for (lacking, leads) in [(None, None), (Some(0), Some([1, 2])), (Some(1), Some([0, 2]))] {
        let mut net = net(3);
        let task = net.enrol(2);
        net.ask(2, task, put("first")).expect("it is put");
        // The disk of one of them takes nothing any more.
        let stale = lacking.map(|host| (host, saved(&mut net, host)));
        net.ask(2, task, put("second")).expect("it is put");
        let mut all = die(&mut net);
        if let Some((host, saved)) = stale {
            all[host] = saved;
        }
        for (host, saved) in all.into_iter().enumerate() {
            start(&mut net, host, saved.let_in()).expect("it asks to be let in");
            net.run(700);
        }
        net.run(20_000);
        let leader = leader(&mut net);
        assert!(leads.is_none_or(|leads| leads.contains(&leader)), "{leader} of {leads:?}");
        assert!(net.events(leader).contains(&NodeEvent::Begins));
        let own = net.enrol(leader);
        assert_eq!(boxes(&mut net, leader, own), ["first", "second"]);
        let up = net.node(leader).hosts().filter(|h| h.state == HostState::Up).count();
        assert_eq!((up, net.node(leader).voters().0.len()), (3, 1), "its table is on no disk yet");
        net.node(leader).kept(u64::MAX);
        net.run(1000);
        assert_eq!(net.node(leader).voters().0.len(), 3);
        // The others look for it where it let them in, and not where they asked first: once it and
        // another one start again, the third goes on.
        let others: Vec<usize> = (0..3).filter(|host| *host != leader).collect();
        for host in &others {
            assert_eq!(net.node(*host).join_addr(), Some(addr(leader)), "{host} of {leader}");
        }
        let [last, other] = others[..] else { panic!("two follow") };
        let all = [leader, other].map(|host| (host, saved(&mut net, host)));
        for (host, saved) in all {
            net.crash(host);
            net.run(100);
            start(&mut net, host, saved.let_in()).expect("it asks to be let in");
        }
        net.run(20_000);
        assert_eq!(leaders(&net), [last]);
    }
}

#[test]
fn where_one_that_voted_is_not_there_nobody_begins_by_itself() {
    let mut net = net(4);
    let (voters, _) = net.node(0).voters();
    let all: Vec<Option<Saved>> =
        (0..4).map(|host| voters.contains(&net.id(host)).then(|| saved(&mut net, host))).collect();
    for host in 0..4 {
        net.crash(host);
    }
    net.run(5000);
    let most = (1..4).filter(|host| all[*host].is_some());
    for host in most {
        start(&mut net, host, all[host].clone().expect("it votes")).expect("it asks");
    }
    net.run(60_000);
    assert_eq!(leaders(&net), []);
    // Of the one that has never voted nobody needs a word.
    start(&mut net, 0, all[0].clone().expect("it votes")).expect("it asks");
    net.run(60_000);
    assert_eq!(leaders(&net).len(), 1);
}

#[test]
fn one_that_lives_goes_on_with_its_tasks_where_most_of_the_others_start_again() {
    for (lives, lags) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut net = net(4);
        let (voters, _) = net.node(0).voters();
        let voter = |net: &Net, host: usize| voters.contains(&net.id(host));
        let lives = (lives..4).find(|host| voter(&net, *host)).expect("three of four vote");
        let others: Vec<usize> =
            (0..4).filter(|host| *host != lives && voter(&net, *host)).collect();
        let bystander = (0..4).find(|host| !voter(&net, *host)).expect("one does not");
        let tasks = [lives, bystander].map(|host| (host, net.enrol(host)));
        for (host, task) in tasks {
            net.ask(host, task, Question::Registry(RegistryOp::Join("g".into()))).expect("joins");
        }
        let elsewhere = net.enrol(others[1]);
        if lags {
            // It does not hear of the last thing that is decided.
            for host in (0..4).filter(|host| *host != lives) {
                net.cut(lives, host);
            }
            // Where it led, another one does by then; it is not lost yet.
            net.run(if lives == 0 { 2500 } else { 300 });
        }
        net.ask(others[1], elsewhere, put("last")).expect("it is put");
        let id = net.id(lives);
        let all: Vec<Saved> = others.iter().map(|host| saved(&mut net, *host)).collect();
        for host in &others {
            net.crash(*host);
        }
        net.mend();
        net.run(5000);
        assert_eq!(leaders(&net), [], "it could not know");
        for (host, saved) in others.iter().zip(all) {
            start(&mut net, *host, saved.let_in()).expect("it asks to be let in");
        }
        net.run(30_000);
        let leader = leader(&mut net);
        assert_eq!(leader == lives, !lags, "{lives} {lags}");
        assert_eq!(net.id(lives), id, "it is who it was");
        for (host, task) in tasks {
            let members = net.ask(host, task, Question::Registry(RegistryOp::Members("g".into())));
            let Ok(Answer::Registry(RegistryAnswer::Members { members, .. })) = members else {
                panic!("{members:?}")
            };
            assert_eq!(members.into_iter().flatten().collect::<Vec<_>>(), tasks.map(|t| t.1));
        }
        assert_eq!(boxes(&mut net, tasks[1].0, tasks[1].1), ["last"]);
        let up = net.node(leader).hosts().filter(|h| h.state == HostState::Up).count();
        assert_eq!(up, 4);
    }
}

#[test]
fn one_that_was_lost_before_is_not_waited_for_by_one_that_lives() {
    // The one that leads starts again, or the one that follows it.
    for again in [0, 1] {
        let mut net = net(3);
        let lives = 1 - again;
        let (task, id) = (net.enrol(lives), net.id(lives));
        net.ask(lives, task, Question::Registry(RegistryOp::Join("g".into()))).expect("joins");
        let lost = saved(&mut net, 2);
        net.crash(2);
        net.run(5000);
        assert_eq!(net.node(lives).hosts().nth(2).map(|h| h.state), Some(HostState::Lost));
        assert_eq!(net.node(lives).voters().0.len(), 3, "there is nobody in its place");
        let back = saved(&mut net, again);
        net.crash(again);
        start(&mut net, again, back.let_in()).expect("it asks to be let in");
        net.run(20_000);
        assert_eq!(leaders(&net), [lives], "{again} starts again");
        assert_eq!(net.id(lives), id, "it is who it was");
        let members = net.ask(lives, task, Question::Registry(RegistryOp::Members("g".into())));
        assert!(matches!(
            members,
            Ok(Answer::Registry(RegistryAnswer::Members { members, .. }))
                if members == [Some(task)]
        ));
        start(&mut net, 2, lost.let_in()).expect("it asks to be let in");
        net.run(20_000);
        assert_eq!(net.node(lives).hosts().filter(|h| h.state == HostState::Up).count(), 3);
    }
}

#[test]
fn what_one_said_before_it_was_told_otherwise_does_not_count() {
    let mut net = net(3);
    let all = die(&mut net);
    for host in [0, 1] {
        start(&mut net, host, all[host].clone()).expect("it asks to be let in");
    }
    net.run(5000);
    // The founder is gone again; it may be back, told to lead alone. The third one hears nothing.
    net.crash(0);
    start(&mut net, 2, all[2].clone()).expect("it asks to be let in");
    net.run(60_000);
    assert_eq!(leaders(&net), []);
    start(&mut net, 0, all[0].clone().alone()).expect("it is its own");
    net.run(30_000);
    assert_eq!(leader(&mut net), 0);
}

#[test]
fn lives_that_began_again_and_kept_nothing_are_not_taken_for_each_other() {
    let mut net = net(3);
    let all = die(&mut net);
    let mut seen = Vec::new();
    for life in 0..3 {
        let saved = all[1].clone().alone();
        let led = saved.before() + life;
        start(&mut net, 1, saved.led(led)).expect("it is its own");
        net.run(4000);
        let place = net.node(1).saved().expect("it leads").snapshot.place();
        seen.push((net.id(1), place));
        net.crash(1);
    }
    assert!(seen.windows(2).all(|w| w[0].0 != w[1].0 && w[0].1 < w[1].1), "{seen:?}");
}

#[test]
fn one_that_its_system_ends_comes_back_and_one_that_leaves_is_gone() {
    let mut net = net(4);
    let (voters, _) = net.node(0).voters();
    let host = (1..4).find(|host| voters.contains(&net.id(*host))).expect("it votes");
    let id = net.id(host);
    let mine = saved(&mut net, host).let_in();
    net.call(host, |node, now, memory| {
        node.comes_back(true);
        node.leave(now, "left", memory);
    });
    net.crash(host);
    net.run(300);
    let state = |net: &mut Net| net.node(0).hosts().find(|h| h.id == id).map(|h| h.state);
    assert_eq!(state(&mut net), Some(HostState::Lost), "at once: nobody asks about it");
    start(&mut net, host, mine).expect("it asks to be let in");
    net.run(3000);
    assert!(net.node(host).me().is_some_and(|me| me != id));
    let id = net.id(host);
    net.call(host, |node, now, memory| {
        node.comes_back(false);
        node.leave(now, "left", memory);
    });
    net.crash(host);
    net.run(300);
    assert_eq!(net.node(0).hosts().find(|h| h.id == id), None);
}

#[test]
fn one_that_is_told_to_join_comes_back_by_what_it_kept_or_by_its_token() {
    let mut net = net(3);
    let mine = saved(&mut net, 2);
    let id = net.id(2);
    net.crash(2);
    net.run(20_000);
    // With a token that is no good any more, and its place in the table.
    let mut target = net.target(1);
    net.run(3000);
    start(&mut net, 2, mine.clone().let_in().or_by(target)).expect("it asks to be let in");
    net.run(5000);
    assert!(net.node(2).me().is_some_and(|me| me != id));
    // Deleted meanwhile: only a good one helps.
    let id = net.id(2);
    net.crash(2);
    net.run(20_000);
    net.call(0, |node, now, memory| node.delete_host(now, 1, id, memory)).expect("it is deleted");
    net.run(500);
    target = net.target(60);
    start(&mut net, 2, mine.clone().let_in().or_by(target)).expect("it asks to be let in");
    net.run(5000);
    assert!(net.node(2).me().is_some());
    let id = net.id(2);
    net.crash(2);
    net.run(20_000);
    net.call(0, |node, now, memory| node.delete_host(now, 1, id, memory)).expect("it is deleted");
    net.run(500);
    start(&mut net, 2, mine.let_in()).expect("it asks to be let in");
    net.run(5000);
    let failed = |e: &NodeEvent| matches!(e, NodeEvent::JoinFailed(_));
    assert!(net.events(2).iter().any(failed), "it has nothing that is good");
}

/// Its disk was full when somebody was to vote, and is not any more.
#[test]
fn one_that_waits_for_the_leaders_disk_votes_once_that_is_written() {
    let of = |index| NodeConfig { voters: 3, keeps_table: true, ..config(index, "h") };
    let mut net = Net::founded(of(0));
    net.seats[0].disk = Some(Disk::new());
    for index in 1..3 {
        net.add(of(index));
        net.seats[index].disk = Some(Disk::new());
        net.run(100);
    }
    net.run(60_000);
    let (voters, learners) = net.node(0).voters();
    assert_eq!((voters.len(), learners.len()), (1, 2), "they are told of nobody's table");
    net.node(0).kept(u64::MAX);
    net.run(1000);
    assert_eq!(net.node(0).voters().0.len(), 3);
}
