//! Against the reference scenes of data/tracker, and scenes of its own.

use super::demo::{Sharing, scores, track};
use super::pairs::Target;
use super::scene::Scene;
use crate::exchange::local::run;

fn reference(scans: &str, truth: &str) -> Scene {
    let mut scene = Scene::read(scans).unwrap();
    scene.truth = vec![Vec::new(); scene.scans.len()];
    for line in truth.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').map(|c| c.parse().unwrap()).collect();
        if let Some(truth) = scene.truth.get_mut(cells[0] as usize) {
            truth.push([cells[1], cells[2], cells[3]]);
        }
    }
    scene
}

fn hundred() -> Scene {
    reference(
        include_str!("../../data/tracker/n100_s2_scans.csv"),
        include_str!("../../data/tracker/n100_s2_truth.csv"),
    )
}

fn ten() -> Scene {
    reference(
        include_str!("../../data/tracker/n10_s1_scans.csv"),
        include_str!("../../data/tracker/n10_s1_truth.csv"),
    )
}

fn alone(scene: &Scene) -> Vec<Vec<Target>> {
    run(1, |exchange| Ok(track(exchange, scene, Sharing::Ssdp)?)).swap_remove(0).unwrap()
}

fn ospa(scene: &Scene) -> f64 {
    let scores = scores(scene, &alone(scene));
    scores.iter().map(|(_, s)| s.ospa).sum::<f64>() / scores.len() as f64
}

#[test]
fn the_reference_scenes_are_tracked() {
    let (ten, hundred) = (ospa(&ten()), ospa(&hundred()));
    assert!(ten <= 2.0, "10 targets: OSPA {ten} km");
    assert!(hundred <= 2.0, "100 targets: OSPA {hundred} km");
}

#[test]
fn other_scenes_are_tracked_as_well() {
    for seed in [1, 2, 3] {
        let ospa = ospa(&Scene::made_up(60, seed, 12.0, 0.97).unwrap());
        assert!(ospa <= 2.2, "seed {seed}: OSPA {ospa} km");
    }
}

#[test]
fn any_number_of_tasks_and_either_sharing_gives_the_same_tracks() {
    let scene = Scene::made_up(40, 9, 8.0, 0.96).unwrap();
    let one = alone(&scene);
    assert!(one.iter().map(Vec::len).max().unwrap() > 20);
    for size in [1, 2, 3, 4, 7, 8] {
        for sharing in [Sharing::Ssdp, Sharing::Psdp] {
            for told in run(size, |exchange| Ok(track(exchange, &scene, sharing)?)) {
                assert_eq!(told.unwrap(), one, "{size} tasks, {sharing:?}");
            }
        }
    }
}

#[test]
fn noise_alone_is_no_target() {
    let scene = Scene::made_up(0, 4, 20.0, 0.98).unwrap();
    let told: usize = alone(&scene).iter().map(Vec::len).sum();
    assert!(told <= 3, "{told} false targets in 60 scans");
    let empty = Scene { scans: vec![Default::default(); 5], truth: Vec::new() };
    assert!(alone(&empty).iter().all(Vec::is_empty));
}

#[test]
fn a_task_that_ends_ends_the_work_of_all() {
    let scene = ten();
    let all = run(3, |exchange| {
        if exchange.rank() == 2 {
            anyhow::bail!("killed");
        }
        Ok(track(exchange, &scene, Sharing::Ssdp)?)
    });
    let said = all[0].as_ref().unwrap_err().to_string();
    assert!(said.contains("ended in the middle of the work"), "{said}");
}
