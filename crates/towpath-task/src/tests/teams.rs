//! What teams do together with bytes, among tasks that share memory.

use towpath_vm::collective::{Element, Function, Lengths, Operator};

use super::actors::{all, crowd};
use crate::plain::{Tile, TileMut, TypeCode};
use crate::task::Task;

fn sum() -> Operator {
    Operator::built_in(Function::Sum, Element::U16).unwrap()
}

fn bytes(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn bytes_are_shared_out_combined_and_put_together() {
    let (mut tasks, _sides) = crowd(3);
    let members: Vec<_> = tasks.iter().map(Task::id).collect();
    all(&mut tasks, |n, task| {
        let mut team = task.team_of(&members).unwrap();
        let own = bytes(&[n as u16 + 1, 300]);
        let shared = team.broadcast(task, 1, (n == 1).then(|| b"from one".to_vec())).unwrap();
        assert_eq!(shared, b"from one");
        let reduced = team.reduce(task, 2, own.clone(), sum()).unwrap();
        assert_eq!(reduced, (n == 2).then(|| bytes(&[6, 900])));
        assert_eq!(team.all_reduce(task, own.clone(), sum()).unwrap(), bytes(&[6, 900]));
        let up_to = [[1, 300], [3, 600], [6, 900]];
        assert_eq!(team.scan(task, own.clone(), sum()).unwrap(), bytes(&up_to[n]));
        let before = team.exclusive_scan(task, own.clone(), sum()).unwrap();
        assert_eq!(before, (n > 0).then(|| bytes(&up_to[n - 1])));
        let parts = [1, 2, 3].map(|k| bytes(&[k, 300]));
        let gathered = team.gather(task, 0, own.clone(), Lengths::Equal).unwrap();
        assert_eq!(gathered, (n == 0).then(|| parts.to_vec()));
        assert_eq!(team.all_gather(task, own.clone(), Lengths::Any).unwrap(), parts);
        let given = (n == 1).then(|| parts.to_vec());
        assert_eq!(team.scatter(task, 1, given).unwrap(), parts[n]);
        let to_each: Vec<Vec<u8>> = (0..3).map(|k| vec![n as u8; k + 1]).collect();
        let from_each = team.all_to_all(task, to_each, Lengths::Any).unwrap();
        assert_eq!(from_each, [0, 1, 2].map(|k| vec![k; n + 1]));
        team.barrier(task).unwrap();
    });
}

#[test]
fn values_arrive_as_what_they_were_and_tiles_as_their_rows() {
    let (mut tasks, _sides) = crowd(2);
    let ids: Vec<_> = tasks.iter().map(Task::id).collect();
    let any = super::actors::ANY;
    all(&mut tasks, |n, task| {
        if n == 0 {
            task.send_slice(ids[1], 1, &[[1_i16, 2], [3, 4]]).unwrap();
            task.send_value(ids[1], 2, 1.5_f32).unwrap();
            let block: Vec<u32> = (0..12).collect();
            task.send_tile(ids[1], 3, Tile::column(&block, 4, 3)).unwrap();
            task.multicast_slice(&[ids[1], ids[0]], 4, &[7_u64]).unwrap();
            assert_eq!(task.recv_value::<u64>(&any).unwrap(), 7);
            return;
        }
        let mut values = task.recv_slice::<[i16; 2]>(&any).unwrap();
        assert_eq!((values.src(), values.tag(), values.len()), (ids[0], 1, 2));
        values[1] = [5, 6];
        assert_eq!(values.into_vec(), [[1, 2], [5, 6]]);
        assert_eq!(task.recv_value::<f32>(&any).unwrap().to_bits(), 1.5_f32.to_bits());
        let mut block = [0_u32; 6];
        task.recv_tile(&any, TileMut::column(&mut block, 2, 1)).unwrap();
        assert_eq!(block, [0, 3, 0, 7, 0, 11]);
        let short = std::time::Duration::from_millis(5);
        let mut one = [0_u64];
        let got = loop {
            if let Some(got) = task.recv_slice_into_timeout(&any, &mut one, short).unwrap() {
                break got;
            }
        };
        assert_eq!((got.tag, one), (4, [7]));
        assert!(task.recv_slice_timeout::<u64>(&any, short).unwrap().is_none());
    });
}

#[test]
fn tiles_are_empty_when_they_have_no_rows_or_columns() {
    let data = [1_u8, 2, 3, 4, 5, 6];
    for (rows, columns, len) in [(0, 3, 0), (2, 0, 0), (2, 3, 6), (1, 1, 1)] {
        let tile = Tile::new(&data, rows, columns, 3);
        assert_eq!((tile.len(), tile.is_empty()), (len, len == 0));
        let mut copy = data;
        let tile = TileMut::new(&mut copy, rows, columns, 3);
        assert_eq!((tile.len(), tile.is_empty()), (len, len == 0));
    }
    let mut matrix = data;
    TileMut::column(&mut matrix, 3, 1).rows().for_each(|row| row[0] = 9);
    assert_eq!(matrix, [1, 9, 3, 4, 9, 6]);
}

#[test]
fn types_are_told_apart_by_what_they_say_of_themselves() {
    let names: Vec<String> =
        (0..14).map(|n| TypeCode::of_element(n).map_or("-".into(), |t| t.to_string())).collect();
    let numbers = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"];
    assert_eq!(names[0], "-");
    assert_eq!(names[1..11], numbers);
    assert_eq!(names[11..], ["complex of f32", "complex of f64", "-"]);
    let sizes = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 4, 8];
    for (n, size) in (1..=12).zip(sizes) {
        let code = TypeCode::of_element(n).unwrap();
        assert_eq!(code.number_bytes(), size, "{code}");
        assert_eq!(TypeCode::of_element(code.as_element().unwrap() as u32 + 1), Some(code));
        let whole = if n > 10 { 2 * size } else { size };
        assert_eq!(code.check(code.format(), 3 * whole), Ok(false));
        assert_eq!(code.check(code.format() ^ 1 << 7, 3 * whole), Ok(true), "the other order");
        assert_eq!(code.check(code.format(), 3 * whole + 1).is_err(), whole > 1);
        assert!(code.check(0, whole).is_err(), "bytes");
    }
    let (f64, u8) = (TypeCode::of::<f64>(), TypeCode::of::<u8>());
    assert!(f64.check(u8.format(), 8).is_err());
    // Records are known by the types and sizes of their fields, in their order.
    let records = [
        TypeCode::record(&[]),
        TypeCode::record(&[(f64, 8)]),
        TypeCode::record(&[(f64, 24)]),
        TypeCode::record(&[(u8, 8)]),
        TypeCode::record(&[(f64, 8), (u8, 1)]),
        TypeCode::record(&[(u8, 1), (f64, 8)]),
    ];
    for (n, one) in records.iter().enumerate() {
        assert!(records[..n].iter().all(|other| other != one && other.kind() != one.kind()));
        assert!(one.to_string().starts_with("record 0x") && one.kind() >= 0x80, "{one}");
        assert_eq!(TypeCode::parse(one.format()).map(|(code, _)| code), Some(*one));
        assert_eq!((one.number_bytes(), one.as_element()), (1, None));
    }
    // FNV-1a over nothing is its basis: folded, that is this.
    assert_eq!(format!("{:?}", records[0]), "record 0x1cd9");
    assert_eq!((f64.kind(), u8.kind()), (10, 2));
}
