//! Bodies that the finest cells of the tree cannot separate.
//!
//! A key has 21 bits per coordinate, so the finest cells are 2^-21 of the cube. Bodies in one of
//! them are summed in pairs. If many share cells, for example because one body is very far from the
//! others, the tree becomes a direct sum. Forces stay correct, and steps become slow.

use orrery_model::Vec3s;
use rayon::prelude::*;

use super::morton::{COORDINATE_BITS, Cube};

/// Pairs per body within cells of the finest level from which a step is clearly slower. With an rms
/// error of 1e-3, a body has about 1,300 terms.
const MAX_PAIRS_PER_BODY: f64 = 300.0;

/// Largest number of bodies in a cell that are not counted. Leaves have up to 32.
const LEAF_BODIES: usize = 32;

/// Bodies in cells of the finest level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowding {
    /// Bodies in cells with more than a leaf has.
    pub bodies: usize,
    /// Bodies in the fullest cell.
    pub largest: usize,
    /// Side of the finest cells.
    pub cell_side: f64,
    /// Pairs of bodies within cells, per body.
    pub pairs_per_body: f64,
    /// Index of the body that is farthest from the median position.
    pub farthest: usize,
    /// Its distance from there.
    pub distance: f64,
    /// Distance within which 99% of the bodies are.
    pub most: f64,
}

impl Crowding {
    /// Returns the crowding of the cells if it makes steps clearly slower. All positions must be
    /// finite.
    ///
    /// ```
    /// use orrery_model::Vec3s;
    /// use orrery_gravity::tree::Crowding;
    /// let mut position = Vec3s::default();
    /// (0..1000).for_each(|k| position.push([f64::from(k), 0.0, 0.0]));
    /// assert_eq!(Crowding::find(&position), None);
    /// position.push([1e12, 0.0, 0.0]);
    /// let found = Crowding::find(&position).unwrap();
    /// assert_eq!((found.bodies, found.farthest), (1000, 1000));
    /// ```
    pub fn find(position: &Vec3s) -> Option<Self> {
        let n = position.len();
        let cube = Cube::around(position);
        let mut keys: Vec<u64> = (0..n).into_par_iter().map(|body| cube.key(position.get(body))).collect();
        keys.par_sort_unstable();
        let (mut bodies, mut largest, mut pairs) = (0, 0, 0.0);
        for cell in keys.chunk_by(|a, b| a == b).filter(|cell| cell.len() > LEAF_BODIES) {
            bodies += cell.len();
            largest = largest.max(cell.len());
            pairs += (cell.len() as f64).powi(2);
        }
        let pairs_per_body = pairs / n as f64;
        if pairs_per_body <= MAX_PAIRS_PER_BODY {
            return None;
        }
        let median = [&position.x, &position.y, &position.z].map(|column| {
            let mut values = column.clone();
            *values.select_nth_unstable_by(n / 2, f64::total_cmp).1
        });
        let distance_of = |body: usize| {
            let [x, y, z] = position.get(body);
            (x - median[0]).hypot(y - median[1]).hypot(z - median[2])
        };
        let mut distances: Vec<(f64, usize)> =
            (0..n).into_par_iter().map(|body| (distance_of(body), body)).collect();
        let order = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let most = distances.select_nth_unstable_by((n - 1) * 99 / 100, order).1.0;
        let (distance, farthest) = distances.into_par_iter().max_by(order)?;
        let cell_side = cube.side * 0.5f64.powi(COORDINATE_BITS as i32);
        Some(Self { bodies, largest, cell_side, pairs_per_body, farthest, distance, most })
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::rng::Draws;

    use super::*;

    /// Returns bodies in a unit ball around `centre`.
    fn ball(n: u64, centre: [f64; 3], bodies: &mut Vec3s) {
        for body in 0..n {
            let mut draws = Draws::new(7, 1, body);
            let r = draws.uniform().cbrt();
            let direction = draws.direction();
            bodies.push([0, 1, 2].map(|axis| centre[axis] + r * direction[axis]));
        }
    }

    #[test]
    fn an_outlier_crowds_the_cells_of_the_whole_cube() {
        let mut bodies = Vec3s::default();
        ball(2000, [0.0; 3], &mut bodies);
        assert_eq!(Crowding::find(&bodies), None);
        bodies.push([0.0, -1e9, 0.0]);
        let found = Crowding::find(&bodies).unwrap();
        assert!(found.bodies == 2000 && found.largest > 200, "{found:?}");
        assert!((400.0..500.0).contains(&found.cell_side) && found.pairs_per_body > 300.0);
        assert!(found.farthest == 2000 && (found.distance / 1e9 - 1.0).abs() < 1e-6, "{found:?}");
        assert!((0.9..1.1).contains(&found.most), "{found:?}");
    }

    #[test]
    fn distant_clusters_crowd_their_cells() {
        let mut bodies = Vec3s::default();
        ball(1000, [0.0; 3], &mut bodies);
        ball(1000, [1e9, 0.0, 0.0], &mut bodies);
        let found = Crowding::find(&bodies).unwrap();
        assert!(found.bodies == 2000 && found.distance < 2.0 * found.most, "{found:?}");
    }
}
