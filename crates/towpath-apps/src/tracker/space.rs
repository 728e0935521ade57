//! Where sensors are, what they see, and where two lines of sight meet. Kilometres; a spherical
//! Earth that does not turn.

pub(crate) type Vector = [f64; 3];

pub(crate) const EARTH: f64 = 6371.0;
/// Of a geostationary orbit.
const ORBIT: f64 = 42_164.0;
/// Longitudes of the two sensors, degrees east.
const LONGITUDES: [f64; 2] = [20.0, 80.0];
/// Known launch sites: latitude and longitude in degrees.
pub(crate) const SITES: [[f64; 2]; 5] =
    [[46.0, 52.0], [48.5, 56.0], [51.0, 59.0], [44.0, 61.0], [53.0, 49.5]];

pub(crate) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// a + s b.
pub(crate) fn along(a: Vector, s: f64, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] + s * b[i])
}

pub(crate) fn norm(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

pub(crate) fn unit(a: Vector) -> Vector {
    let n = norm(a);
    a.map(|x| x / n)
}

pub(crate) fn cross(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        a[j] * b[k] - a[k] * b[j]
    })
}

/// A point above the sphere; degrees.
pub(crate) fn place(latitude: f64, longitude: f64, radius: f64) -> Vector {
    let (sin, cos) = latitude.to_radians().sin_cos();
    let (east, west) = longitude.to_radians().sin_cos();
    [radius * cos * west, radius * cos * east, radius * sin]
}

/// A sensor: looks at the Earth's centre, x eastwards, y northwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Camera {
    pub(crate) at: Vector,
    axes: [Vector; 3],
}

impl Camera {
    /// Sensor 0 or 1.
    pub(crate) fn of(sensor: usize) -> Self {
        let at = place(0.0, LONGITUDES[sensor], ORBIT);
        let z = unit(at.map(|x| -x));
        let y = [0.0, 0.0, 1.0];
        Self { at, axes: [cross(y, z), y, z] }
    }

    /// Where a point is in the focal plane, µrad.
    pub(crate) fn project(&self, point: Vector) -> [f64; 2] {
        let away = along(point, -1.0, self.at);
        let [x, y, z] = self.axes.map(|axis| dot(axis, away));
        [x / z * 1e6, y / z * 1e6]
    }

    /// The direction of a point of the focal plane.
    pub(crate) fn direction(&self, [u, v]: [f64; 2]) -> Vector {
        let [x, y, z] = self.axes;
        unit(std::array::from_fn(|i| u * 1e-6 * x[i] + v * 1e-6 * y[i] + z[i]))
    }

    /// Where a line of sight first meets the sphere at this height.
    pub(crate) fn meets(&self, plane: [f64; 2], height: f64) -> Option<Vector> {
        let d = self.direction(plane);
        let (b, c) = (dot(self.at, d), dot(self.at, self.at) - (EARTH + height).powi(2));
        let root = (b * b - c).max(-1.0);
        (root >= 0.0).then(|| along(self.at, -b - root.sqrt(), d))
    }
}

/// The point nearest to two lines of sight, and by how much they miss each other.
pub(crate) fn meeting(cameras: &[Camera; 2], planes: [[f64; 2]; 2]) -> (Vector, f64) {
    let d = [cameras[0].direction(planes[0]), cameras[1].direction(planes[1])];
    let base = along(cameras[1].at, -1.0, cameras[0].at);
    let (b, p, q) = (dot(d[0], d[1]), dot(d[0], base), dot(d[1], base));
    let scale = 1.0 / (1.0 - b * b).max(1e-12);
    let first = along(cameras[0].at, (p - b * q) * scale, d[0]);
    let second = along(cameras[1].at, (b * p - q) * scale, d[1]);
    let middle = std::array::from_fn(|i| f64::midpoint(first[i], second[i]));
    (middle, norm(along(first, -1.0, second)))
}

/// The angle of a line of sight about the line between the sensors: lines that meet have the same.
pub(crate) fn epipolar(cameras: &[Camera; 2], sensor: usize, plane: [f64; 2]) -> f64 {
    let base = unit(along(cameras[1].at, -1.0, cameras[0].at));
    let north = [0.0, 0.0, 1.0];
    let d = cameras[sensor].direction(plane);
    dot(d, north).atan2(dot(d, cross(base, north)).abs())
}

/// Degrees of arc to the nearest launch site.
pub(crate) fn from_site(point: Vector) -> f64 {
    let up = unit(point);
    let angle = |[latitude, longitude]: &[f64; 2]| {
        dot(up, place(*latitude, *longitude, 1.0)).clamp(-1.0, 1.0).acos().to_degrees()
    };
    SITES.iter().map(angle).fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_sensors_see_is_where_it_is() {
        let cameras = [Camera::of(0), Camera::of(1)];
        for height in [7.0, 100.0, 250.0] {
            let point = place(48.0, 55.0, EARTH + height);
            let planes = [cameras[0].project(point), cameras[1].project(point)];
            let (met, miss) = meeting(&cameras, planes);
            assert!(norm(along(met, -1.0, point)) < 1e-6 && miss < 1e-6);
            let angles = [epipolar(&cameras, 0, planes[0]), epipolar(&cameras, 1, planes[1])];
            assert!((angles[0] - angles[1]).abs() < 1e-12, "{angles:?}");
            let again = cameras[0].meets(planes[0], height).unwrap();
            assert!(norm(along(again, -1.0, point)) < 1e-6);
        }
        assert!(from_site(place(46.0, 52.0, EARTH)) < 1e-5);
        assert!(cameras[0].meets([5e5, 0.0], 0.0).is_none(), "past the Earth");
    }
}
