//! Arrays of teams, shared work and pipelines, among tasks that share memory.

use towpath_vm::collective::{CollectiveError, Function, Operation};
use towpath_vm::talk::{ToDaemon, ToTask, WatchEvent};
use towpath_wire::TaskId;

use super::actors::{ANY, all, crowd, enrol, with_ring};
use super::stage::{Heard, Side, Stage};
use crate::pipe::{PipeError, PipeIn, PipeOut};
use crate::plain::ContentError;
use crate::pool::Pool;
use crate::task::Task;
use crate::team::{Team, TeamError};

fn ids(tasks: &[Task]) -> Vec<TaskId> {
    tasks.iter().map(Task::id).collect()
}

#[test]
fn arrays_are_shared_out_combined_and_put_together() {
    let (mut tasks, _sides) = crowd(3);
    let members = ids(&tasks);
    all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let (rank, root) = (i64::try_from(n).unwrap(), n == 1);
        assert_eq!((team.rank() as usize, team.size(), team.members()), (n, 3, &members[..]));
        let mut step = [rank, 10 * rank];
        team.broadcast_slice(task, 2, &mut step).unwrap();
        assert_eq!(step, [2, 20]);
        let mut sum = [rank + 1, -rank];
        team.reduce_slice(task, 1, &mut sum, Function::Sum).unwrap();
        assert_eq!(sum, if root { [6, -3] } else { [rank + 1, -rank] });
        let mut most = [rank as f64, -(rank as f64)];
        team.all_reduce_slice(task, &mut most, Function::Max).unwrap();
        assert_eq!(most.map(|value| value as i32), [2, 0]);
        assert_eq!(team.all_reduce_value(task, n as u32 + 2, Function::Product).unwrap(), 24);
        let mut up_to = [rank + 1];
        team.scan_slice(task, &mut up_to, Function::Sum).unwrap();
        assert_eq!(up_to, [[1], [3], [6]][n]);
        let mut before = [rank + 1];
        let has = team.exclusive_scan_slice(task, &mut before, Function::Sum).unwrap();
        assert_eq!((has, before), [(false, [1]), (true, [1]), (true, [3])][n]);
        let own = vec![rank as u16; n];
        let gathered = team.gather_slice(task, 1, &own).unwrap();
        let parts: Vec<Vec<u16>> = vec![vec![], vec![1], vec![2, 2]];
        assert_eq!(gathered, root.then(|| parts.clone()));
        assert_eq!(team.all_gather_parts(task, &own).unwrap(), parts);
        let (long, mut all) = (vec![rank; 2000], vec![-1; 6000]);
        team.gather_into(task, 1, &long, Some(&mut all)).unwrap();
        let gathered = [vec![0; 2000], vec![1; 2000], vec![2; 2000]].concat();
        assert_eq!(all, if root { gathered } else { vec![-1; 6000] });
        let mut everyone = [0; 6];
        team.all_gather_slice(task, &[rank, rank + 10], &mut everyone).unwrap();
        assert_eq!(everyone, [0, 10, 1, 11, 2, 12]);
    });
}

#[test]
fn parts_of_arrays_go_where_they_belong() {
    let (mut tasks, _sides) = crowd(3);
    let members = ids(&tasks);
    all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let all = [15_u32, 25, 35, 45, 55, 65];
        let mut part = [0; 2];
        team.scatter_slice(task, 0, (n == 0).then_some(&all[..]), &mut part).unwrap();
        assert_eq!(part, [all[2 * n], all[2 * n + 1]]);
        let counts = [1, 0, 5];
        let root = (n == 2).then_some((&all[..], &counts[..]));
        let part = team.scatter_counts(task, 2, root).unwrap();
        assert!(part == [&all[..1], &[], &all[1..]][n]);
        let rank = n as u8;
        let to_all = [0, 1, 2].map(|to| 10 * rank + to);
        let pairs = to_all.map(|value| [value, value + 100]);
        let mut from_all = [0; 6];
        team.all_to_all_slice(task, pairs.as_flattened(), &mut from_all).unwrap();
        let expected = [0, 1, 2].map(|from| [10 * from + rank, 10 * from + rank + 100]);
        assert_eq!(from_all, *expected.as_flattened());
        // To rank k go k values.
        let from_all = team.all_to_all_counts(task, &to_all, &[0, 1, 2]).unwrap();
        let expected: Vec<Vec<u8>> = match n {
            0 => vec![vec![]; 3],
            1 => vec![vec![0], vec![10], vec![20]],
            _ => vec![vec![1, 2], vec![11, 12], vec![21, 22]],
        };
        assert_eq!(from_all, expected);
    });
}

#[test]
fn what_was_started_goes_on_until_its_values_are_asked_for() {
    let (mut tasks, _sides) = crowd(3);
    let members = ids(&tasks);
    all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let rank = i32::try_from(n).unwrap();
        let given = [7, 8];
        let shared = team.start_broadcast(task, 0, (n == 0).then_some(&given[..])).unwrap();
        let sums = team.start_all_reduce(task, &[rank, 1], Function::Sum).unwrap();
        let parts = team.start_all_gather(task, &vec![rank; n]).unwrap();
        let mixed = team.start_all_to_all(task, &[rank, rank], &[1, 1, 0]).unwrap();
        let from_each = if n < 2 { vec![vec![0], vec![1], vec![2]] } else { vec![vec![]; 3] };
        assert_eq!(team.finish_values(task, mixed).unwrap(), from_each);
        assert_eq!(team.finish_values(task, parts).unwrap(), [vec![], vec![1], vec![2, 2]]);
        assert_eq!(team.finish_values(task, sums).unwrap(), [[3, 3]]);
        assert_eq!(team.finish_values(task, shared).unwrap(), [[7, 8]]);
        let nothing = team.start(task, Operation::Barrier).unwrap();
        assert!(team.wait(task, &nothing, super::stage::LONG).unwrap());
        assert!(team.test(task, &nothing).unwrap());
        team.finish(task, nothing).unwrap();
    });
}

#[test]
fn a_team_is_parted_by_colours_and_ordered_by_keys() {
    let (mut tasks, _sides) = crowd(4);
    let members = ids(&tasks);
    all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let (colour, key) = [(Some(5), 9), (Some(0), 0), (Some(5), 3), (None, 0)][n];
        let part = team.split(task, colour, key).unwrap();
        let Some(mut part) = part else { return assert_eq!(n, 3) };
        let expected = if n == 1 { vec![members[1]] } else { vec![members[2], members[0]] };
        assert_eq!(part.members(), expected);
        let mut sum = [n as u64];
        part.all_reduce_slice(task, &mut sum, Function::Sum).unwrap();
        assert_eq!(sum, if n == 1 { [1] } else { [2] });
    });
}

#[test]
fn arrays_that_do_not_fit_each_other_are_an_error() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    let mut team = task.team_of(&[own]).unwrap();
    let counted = |result: Result<(), TeamError>, expected: (usize, usize)| match result {
        Err(TeamError::Content(ContentError::Count { got, expected: wanted, .. })) => {
            assert_eq!((got, wanted), expected);
        }
        other => panic!("{other:?}"),
    };
    counted(team.all_gather_slice(&mut task, &[1_u8, 2], &mut [0; 3]), (2, 3));
    counted(team.scatter_slice(&mut task, 0, Some(&[1_u8, 2]), &mut [0; 1]), (2, 1));
    let parts = team.scatter_counts(&mut task, 0, Some((&[1_u8, 2], &[1])));
    counted(parts.map(drop), (2, 1));
    counted(team.all_to_all_slice(&mut task, &[1_u8], &mut [0; 2]), (1, 2));
    let mixed = team.all_to_all_counts(&mut task, &[1_u8], &[2]);
    counted(mixed.map(drop), (1, 2));
    counted(team.gather_into(&mut task, 0, &[1_u8, 2], None), (2, 0));
    // Nothing is broken by it.
    let mut all = [0; 2];
    team.all_gather_slice(&mut task, &[1_u8, 2], &mut all).unwrap();
    assert_eq!(all, [1, 2]);
    // Numbers are no bits to some functions.
    let bits = team.all_reduce_slice(&mut task, &mut [1.0_f64], Function::BitAnd);
    assert!(matches!(bits, Err(TeamError::Operator(_))), "{bits:?}");
}

/// The first member gives what cannot be; the others, who wait for its part, are told.
#[test]
fn what_is_refused_before_it_begins_fails_for_all() {
    type Does = fn(&mut Team, &mut Task, bool) -> Result<(), TeamError>;
    let bad: [Does; 4] = [
        |team, task, is_bad| {
            let values = [1_u8; 3];
            team.all_to_all_slice(task, &values[..if is_bad { 2 } else { 3 }], &mut [0; 3])
        },
        |team, task, is_bad| {
            let counts: &[usize] = if is_bad { &[1, 1] } else { &[1, 1, 1] };
            let all = (team.rank() == 0).then_some((&[1_u8; 3][..], counts));
            team.scatter_counts(task, 0, all).map(drop)
        },
        |team, task, is_bad| {
            let all = (team.rank() == 0 && !is_bad).then_some(&[1_u8; 3][..]);
            team.scatter_slice(task, 0, all, &mut [0; 1])
        },
        |team, task, is_bad| {
            let function = if is_bad { Function::BitAnd } else { Function::Sum };
            team.all_reduce_slice(task, &mut [1.0_f64], function)
        },
    ];
    for does in bad {
        let (mut tasks, _sides) = crowd(3);
        let members = ids(&tasks);
        let told = all(&mut tasks, |n, task| {
            let mut team = task.team_of(&members).unwrap();
            team.barrier(task).unwrap();
            let told = does(&mut team, task, n == 0).unwrap_err();
            let later = team.barrier(task).unwrap_err().to_string();
            (told, later)
        });
        let gave_up = CollectiveError::GaveUp { rank: 0 };
        assert!(!matches!(told[0].0, TeamError::Collective(_)), "{:?}", told[0]);
        for (told, later) in &told[1..] {
            assert!(matches!(told, TeamError::Collective(why) if *why == gave_up), "{told:?}");
            assert_eq!(*later, gave_up.to_string());
        }
    }
}

#[test]
fn members_that_give_arrays_of_two_types_are_all_told() {
    let (mut tasks, _sides) = crowd(2);
    let members = ids(&tasks);
    all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let told = if n == 0 {
            team.all_reduce_slice(task, &mut [1.0_f64], Function::Sum)
        } else {
            team.all_reduce_slice(task, &mut [1_i64], Function::Sum)
        };
        assert!(matches!(told, Err(TeamError::Collective(_))), "{told:?}");
    });
}

#[test]
fn each_item_of_a_pool_is_done_once_by_whoever_has_time() {
    const ITEMS: u64 = 200;
    let (mut tasks, _sides) = crowd(3);
    let members = ids(&tasks);
    let done = all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let mut pool = Pool::new(&team, ITEMS);
        let mut done = Vec::new();
        while let Some(item) = pool.next(task, &mut team).unwrap() {
            done.push(item);
            if n == 0 && done.len() == 1 {
                // It is busy until the others have done their own and have come to it.
                task.wait(None).unwrap();
            }
        }
        assert_eq!(pool.next(task, &mut team).unwrap(), None, "it stays over");
        team.barrier(task).unwrap();
        (done, pool.stolen())
    });
    let mut items: Vec<u64> = done.iter().flat_map(|(items, _)| items.clone()).collect();
    items.sort_unstable();
    assert_eq!(items, (0..ITEMS).collect::<Vec<_>>());
    let begun: Vec<u64> = done.iter().map(|(items, _)| items[0]).collect();
    assert_eq!(begun, [0, 66, 133], "each begins with its share");
    let stolen: u64 = done[1..].iter().map(|(_, stolen)| stolen).sum();
    assert!(stolen > 0, "the first had most of its own left");
    // Without items it is over at once.
    all(&mut tasks, |_, task| {
        let mut team = task.team_of(&members).unwrap();
        assert_eq!(Pool::new(&team, 0).next(task, &mut team).unwrap(), None);
    });
}

fn ended(side: &mut Side, peer: TaskId) {
    loop {
        if let Heard::Control(ToDaemon::Watch { watch, .. }) = side.hear() {
            let event = WatchEvent::TaskEnded { task: peer, ending: None };
            return side.say(&ToTask::Notice { watch, event });
        }
    }
}

#[test]
fn a_pipe_holds_so_many_arrays_and_says_when_it_is_closed() {
    let (mut a, _a_side, mut b, _b_side) = with_ring();
    let mut input = PipeIn::<u32>::new(b.id(), 4, 2);
    let mut output = PipeOut::<u32>::new(a.id(), 4);
    input.put(&mut a, &[1]).unwrap();
    input.put(&mut a, &[2, 2]).unwrap();
    assert_eq!(*output.take(&mut b).unwrap().expect("an array"), [1]);
    // One was taken: there is room for another, and for no more.
    input.put(&mut a, &[]).unwrap();
    let to = b.id();
    std::thread::scope(|scope| {
        let third = scope.spawn(|| {
            input.put(&mut a, &[4]).unwrap();
            a.send(to, 9, b"put").unwrap();
            input.close(&mut a).unwrap();
        });
        assert_eq!(*output.take(&mut b).unwrap().expect("an array"), [2, 2]);
        third.join().unwrap();
    });
    assert!(output.take(&mut b).unwrap().expect("an array").is_empty());
    assert_eq!(*output.take(&mut b).unwrap().expect("an array"), [4]);
    assert!(output.take(&mut b).unwrap().is_none());
    assert!(output.take(&mut b).unwrap().is_none(), "it stays closed");
    assert_eq!(b.recv(&ANY).unwrap().tag(), 9, "and is no message of the program's");
}

#[test]
fn a_pipe_says_when_its_other_end_is_gone_and_when_it_brings_something_else() {
    let (mut a, mut a_side, mut b, mut b_side) = with_ring();
    let mut input = PipeIn::<u32>::new(b.id(), 4, 0);
    let mut other = PipeOut::<f32>::new(a.id(), 4);
    input.put(&mut a, &[1]).unwrap();
    let wrong = other.take(&mut b);
    assert!(matches!(wrong, Err(PipeError::Recv(_))), "{wrong:?}");
    // Nobody has taken it: there is no room for a second one, and there will be none.
    std::thread::scope(|scope| {
        let (a, input, to) = (&mut a, &mut input, b.id());
        let put = scope.spawn(move || input.put(a, &[2]));
        ended(&mut a_side, to);
        let put = put.join().unwrap();
        assert!(matches!(put, Err(PipeError::Ended(task)) if task == to), "{put:?}");
    });
    let from = a.id();
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| PipeOut::<u32>::new(from, 5).take(&mut b));
        ended(&mut b_side, from);
        let taken = taking.join().unwrap();
        assert!(matches!(taken, Err(PipeError::Ended(task)) if task == from), "{taken:?}");
    });
}

#[test]
fn one_member_does_all_of_a_pool_itself_in_order() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    let mut team = task.team_of(&[own]).unwrap();
    let mut pool = Pool::new(&team, 5);
    let done: Vec<u64> = std::iter::from_fn(|| pool.next(&mut task, &mut team).unwrap()).collect();
    assert_eq!((done, pool.stolen()), (vec![0, 1, 2, 3, 4], 0));
}

#[test]
fn a_pipe_to_a_task_that_has_ended_is_closed_in_vain() {
    let (mut a, mut a_side, b, _b_side) = with_ring();
    let to = b.id();
    let input = PipeIn::<u32>::new(to, 4, 2);
    a_side.say(&ToTask::Gone { peer: to });
    while !a.endpoint.has_ended(to) {
        a.poll().unwrap();
    }
    let mut late = PipeIn::<u32>::new(to, 5, 2);
    assert!(matches!(late.put(&mut a, &[1]), Err(PipeError::Ended(task)) if task == to));
    assert!(matches!(input.close(&mut a), Err(PipeError::Ended(task)) if task == to));
}

#[test]
fn a_tile_is_filled_by_as_many_values_as_it_has_or_not_at_all() {
    let (mut task, _side) = enrol(&mut Stage::new(), 1);
    let own = task.id();
    let mut block = [0_u16; 6];
    task.send_slice(own, 1, &[1_u16, 2, 3]).unwrap();
    let tile = crate::plain::TileMut::new(&mut block, 2, 2, 3);
    let wrong = task.recv_tile(&ANY, tile);
    let count = matches!(
        &wrong,
        Err(crate::error::RecvError::Content(ContentError::Count { got: 3, expected: 4, .. }))
    );
    assert!(count, "{wrong:?}");
    assert_eq!(block, [0; 6]);
    assert_eq!(*task.recv_slice::<u16>(&ANY).unwrap(), [1, 2, 3], "it stays");
}
