//! Ray tracing: spheres on a chequered plane, with one lamp, shadows and mirrors. Tiles of the
//! picture are items of a pool.

use anyhow::ensure;
use clap::Args;

use crate::exchange::{Exchange, ExchangeError};
use crate::picture::Field;
use crate::report::Report;

const SIDE_MAX: usize = 4000;
/// Pixels of a tile each way; the last of a row or column are smaller.
const TILE: usize = 16;
/// Mirrors in mirrors.
const DEPTH: usize = 4;
/// What is nearer was just left.
const NEAR: f64 = 1e-6;

#[derive(Clone, Debug, Args)]
pub(crate) struct RaytraceArgs {
    /// Columns; rows are three quarters as many
    #[arg(long, default_value_t = 160)]
    columns: usize,
}

type Vector = [f64; 3];

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// a + s b.
fn along(a: Vector, s: f64, b: Vector) -> Vector {
    [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]]
}

fn unit(a: Vector) -> Vector {
    along([0.0; 3], 1.0 / dot(a, a).sqrt(), a)
}

/// From a point in a direction of length 1.
#[derive(Clone, Copy, Debug)]
struct Ray {
    from: Vector,
    to: Vector,
}

struct Sphere {
    centre: Vector,
    radius: f64,
    colour: Vector,
    /// What part of the light is mirrored.
    mirror: f64,
}

const SPHERES: [Sphere; 4] = [
    Sphere { centre: [0.0, 1.0, 4.0], radius: 1.0, colour: [0.9, 0.3, 0.2], mirror: 0.3 },
    Sphere { centre: [-2.1, 0.8, 5.0], radius: 0.8, colour: [0.2, 0.5, 0.9], mirror: 0.2 },
    Sphere { centre: [1.9, 0.6, 3.2], radius: 0.6, colour: [0.3, 0.8, 0.3], mirror: 0.1 },
    Sphere { centre: [1.2, 1.7, 6.5], radius: 1.7, colour: [0.9, 0.9, 0.9], mirror: 0.7 },
];
const LAMP: Vector = [-4.0, 6.0, -1.0];
const EYE: Vector = [0.0, 1.4, -2.0];

impl Sphere {
    /// The least distance at which a ray meets it: |from + t to - centre| = radius.
    fn hit(&self, ray: Ray) -> Option<f64> {
        let away = along(ray.from, -1.0, self.centre);
        let half = dot(away, ray.to);
        let square = half * half - dot(away, away) + self.radius * self.radius;
        let root = Some(square).filter(|square| *square >= 0.0)?.sqrt();
        [-half - root, -half + root].into_iter().find(|t| *t > NEAR)
    }
}

/// The plane y = 0.
fn plane(ray: Ray) -> Option<f64> {
    Some(-ray.from[1] / ray.to[1]).filter(|t| t.is_finite() && *t > NEAR)
}

/// What a ray meets first: how far away, its direction there outwards, colour, mirror.
fn first(ray: Ray) -> Option<(f64, Vector, Vector, f64)> {
    let mut met = plane(ray).map(|t| {
        let at = along(ray.from, t, ray.to);
        let is_light = (at[0].floor() + at[2].floor()).rem_euclid(2.0) == 0.0;
        (t, [0.0, 1.0, 0.0], if is_light { [0.9; 3] } else { [0.15; 3] }, 0.1)
    });
    for sphere in &SPHERES {
        if let Some(t) = sphere.hit(ray).filter(|t| met.is_none_or(|first| *t < first.0)) {
            let out = along(along(ray.from, t, ray.to), -1.0, sphere.centre);
            met = Some((t, unit(out), sphere.colour, sphere.mirror));
        }
    }
    met
}

/// Light that comes back along a ray: red, green, blue.
fn light(ray: Ray, depth: usize) -> Vector {
    let Some((t, out, colour, mirror)) = first(ray) else {
        let sky = 0.5 + 0.5 * ray.to[1].max(0.0);
        return [0.5 * sky, 0.7 * sky, sky];
    };
    let at = along(ray.from, t, ray.to);
    let to_lamp = along(LAMP, -1.0, at);
    let lamp = Ray { from: at, to: unit(to_lamp) };
    let is_dark = first(lamp).is_some_and(|(t, ..)| t * t < dot(to_lamp, to_lamp));
    let shine = if is_dark { 0.0 } else { dot(out, lamp.to).max(0.0) };
    let own = along([0.0; 3], (0.15 + 0.85 * shine) * (1.0 - mirror), colour);
    if depth == 0 {
        return own;
    }
    let to = along(ray.to, -2.0 * dot(ray.to, out), out);
    along(own, mirror, light(Ray { from: at, to }, depth - 1))
}

/// The eye's ray through a pixel's middle.
fn through(columns: usize, rows: usize, x: usize, y: usize) -> Ray {
    let scale = 2.0 / columns as f64;
    let right = (x as f64 + 0.5 - 0.5 * columns as f64) * scale;
    let up = (0.5 * rows as f64 - y as f64 - 0.5) * scale;
    Ray { from: EYE, to: unit([right, up, 1.6]) }
}

/// Red, green and blue of every pixel by rows, at the root.
fn picture(exchange: &mut dyn Exchange, columns: usize) -> anyhow::Result<Option<Vec<u8>>> {
    ensure!((4..=SIDE_MAX).contains(&columns), "{columns} columns: from 4 to {SIDE_MAX}");
    let rows = columns * 3 / 4;
    let across = columns.div_ceil(TILE);
    let tiles = across * rows.div_ceil(TILE);
    let pixels = |tile: usize| {
        let (left, top) = (tile % across * TILE, tile / across * TILE);
        let (right, bottom) = ((left + TILE).min(columns), (top + TILE).min(rows));
        (top..bottom).flat_map(move |y| (left..right).map(move |x| (x, y)))
    };
    let mut pool = exchange.pool(tiles as u64);
    // Tile by tile its number and its pixels.
    let mut own = Vec::new();
    while let Some(tile) = exchange.next_item(&mut pool)? {
        own.extend((tile as u32).to_le_bytes());
        for (x, y) in pixels(tile as usize) {
            let rgb = light(through(columns, rows, x, y), DEPTH);
            own.extend(rgb.map(|part| (part.clamp(0.0, 1.0).sqrt() * 255.0).round() as u8));
        }
    }
    let Some(parts) = exchange.gather(0, own)? else { return Ok(None) };
    let (mut all, mut done) = (vec![0; columns * rows * 3], 0);
    for part in parts {
        let bad = ExchangeError::Malformed { len: part.len(), what: "tiles" };
        let mut rest = &part[..];
        while let Some((tile, after)) = rest.split_first_chunk::<4>() {
            let tile = u32::from_le_bytes(*tile) as usize;
            let size = 3 * pixels(tile).count();
            let shown = after.split_at_checked(size).filter(|_| tile < tiles);
            let (shown, after) = shown.ok_or_else(|| bad.clone())?;
            for ((x, y), rgb) in pixels(tile).zip(shown.chunks_exact(3)) {
                all[3 * (y * columns + x)..][..3].copy_from_slice(rgb);
            }
            (rest, done) = (after, done + 1);
        }
        ensure!(rest.is_empty(), bad);
    }
    ensure!(done == tiles, "{done} tiles of {tiles}");
    Ok(Some(all))
}

/// The whole example; the root gets the report.
pub(super) fn raytrace(
    exchange: &mut dyn Exchange,
    args: &RaytraceArgs,
) -> anyhow::Result<Option<Report>> {
    let columns = args.columns;
    let Some(pixels) = picture(exchange, columns)? else { return Ok(None) };
    let lead = format!("{columns} columns, {} spheres, {} tasks", SPHERES.len(), exchange.size());
    let mut report = Report::new("Ray tracing", &lead);
    let grey = |rgb: &[u8]| rgb.iter().map(|part| f64::from(*part)).sum();
    report.field("Brightness", &Field::new(columns, pixels.chunks_exact(3).map(grey).collect()));
    let mut file = format!("P6\n{columns} {}\n255\n", columns * 3 / 4).into_bytes();
    file.extend(pixels);
    report.file("scene.ppm", file);
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::local::run;

    fn near(got: Option<f64>, right: f64) {
        assert!((got.unwrap() - right).abs() < 1e-12, "{got:?}, not {right}");
    }

    #[test]
    fn hits_are_those_of_closed_forms() {
        let sphere = Sphere { centre: [0.0, 0.0, 5.0], radius: 2.0, colour: [1.0; 3], mirror: 0.0 };
        let straight = |from: Vector| Ray { from, to: [0.0, 0.0, 1.0] };
        near(sphere.hit(straight([0.0; 3])), 3.0);
        // At height h the sphere begins √(r² - h²) before its centre; seen from within it ends so
        // far behind; from behind there is nothing.
        near(sphere.hit(straight([0.0, 1.2, 0.0])), 5.0 - 1.6);
        near(sphere.hit(straight([0.0, 0.0, 4.0])), 3.0);
        near(sphere.hit(straight([0.0, 2.0, 0.0])), 5.0);
        assert!(sphere.hit(straight([0.0, 2.001, 0.0])).is_none());
        assert!(sphere.hit(straight([0.0, 0.0, 7.5])).is_none());
        near(plane(Ray { from: [0.0, 3.0, 0.0], to: [0.8, -0.6, 0.0] }), 5.0);
        assert!(plane(Ray { from: [0.0, 3.0, 0.0], to: [0.0, 0.0, 1.0] }).is_none());
        assert!(plane(Ray { from: [0.0, 3.0, 0.0], to: [0.0, 1.0, 0.0] }).is_none());
        // A mirror in front sends a ray back: out again along its own direction.
        let (t, out, ..) = first(Ray { from: [0.0, 1.0, 0.0], to: [0.0, 0.0, 1.0] }).unwrap();
        assert!((t - 3.0).abs() < 1e-12 && dot(out, [0.0, 0.0, -1.0]) > 1.0 - 1e-12);
    }

    #[test]
    fn any_number_of_tasks_draws_the_same_picture() {
        let draw = |size, columns| {
            let mut all = run(size, |exchange| picture(exchange, columns));
            assert!(all[1..].iter().all(|other| matches!(other, Ok(None))));
            all.swap_remove(0).unwrap().unwrap()
        };
        for columns in [5, 70] {
            let one = draw(1, columns);
            assert_eq!(one.len(), columns * (columns * 3 / 4) * 3);
            for size in [2, 3, 4, 7, 8] {
                assert!(draw(size, columns) == one, "{size} tasks");
            }
        }
        let picture = draw(1, 70);
        // Above there is the sky, in the middle the red sphere.
        let at = |x: usize, y: usize| &picture[3 * (y * 70 + x)..][..3];
        assert!(at(0, 0)[2] > at(0, 0)[0], "{:?}", at(0, 0));
        assert!(at(35, 30)[0] > at(35, 30)[2], "{:?}", at(35, 30));
        let said = run(2, |e| picture_of(e, 0)).swap_remove(0).unwrap_err().to_string();
        assert_eq!(said, "0 columns: from 4 to 4000");
    }

    fn picture_of(exchange: &mut dyn Exchange, columns: usize) -> anyhow::Result<()> {
        picture(exchange, columns).map(drop)
    }
}
