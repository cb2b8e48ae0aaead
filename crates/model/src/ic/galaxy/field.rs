//! The softened field of spherical layers.
//!
//! A layer of mass m and radius s acts at radius r, averaged over the layer, as
//!
//! φ(r) = −2 G m / (A + B),   A, B = ((r ± s)² + eps²)^{1/2}
//!
//! (for eps = 0 this is −G m / max(r, s)). Masses are held between the nodes of a grid and the field at the
//! nodes, so that the mass inside a node is exact and the field is as smooth as the density.

/// Number of intervals of the grid; 5 decades of radius in steps of 3%.
const INTERVALS: usize = 400;

/// Radii in equal steps of log r: `radius[k + 1] / radius[k]` is one number throughout.
pub struct Grid {
    /// The nodes, ascending.
    pub radius: Vec<f64>,
    log_step: f64,
}

impl Grid {
    /// From `innermost` to `outermost`.
    pub fn new(innermost: f64, outermost: f64) -> Self {
        let log_step = libm::log(outermost / innermost) / INTERVALS as f64;
        let mut radius: Vec<f64> =
            (0..INTERVALS).map(|k| innermost * libm::exp(log_step * k as f64)).collect();
        radius.push(outermost);
        Self { radius, log_step }
    }

    /// The middle of each interval, and of the ball inside the first node.
    pub fn middles(&self) -> impl Iterator<Item = f64> + '_ {
        let ball = std::iter::once(2.0 / 3.0 * self.radius[0]);
        ball.chain(self.radius.windows(2).map(|ends| (ends[0] * ends[1]).sqrt()))
    }

    /// The mass in the ball inside the first node and in each interval, for `enclosed` mass M(r).
    pub fn masses(&self, enclosed: impl Fn(f64) -> f64) -> Vec<f64> {
        let within: Vec<f64> = self.radius.iter().map(|&r| enclosed(r)).collect();
        std::iter::once(within[0]).chain(within.windows(2).map(|ends| ends[1] - ends[0])).collect()
    }

    /// The interval that holds `r`, and how far into it `r` is (0 to 1) in log r.
    fn locate(&self, r: f64) -> (usize, f64) {
        let steps = (libm::log(r / self.radius[0]) / self.log_step).clamp(0.0, INTERVALS as f64);
        let interval = (steps as usize).min(INTERVALS - 1);
        (interval, steps - interval as f64)
    }
}

/// Mass in the ball inside the grid's first node and in each of its intervals.
#[derive(Clone)]
pub struct Layers(Vec<f64>);

impl Layers {
    /// No mass at all.
    pub fn empty(grid: &Grid) -> Self {
        Self(vec![0.0; grid.radius.len()])
    }

    /// Adds masses, one for each layer.
    pub fn add(&mut self, masses: Vec<f64>) {
        self.0.iter_mut().zip(masses).for_each(|(sum, mass)| *sum += mass);
    }
}

/// Potential and its gradient at the nodes of a grid.
pub struct Field<'a> {
    grid: &'a Grid,
    /// Φ at each node.
    pub potential: Vec<f64>,
    /// dΦ/dr at each node.
    pub gradient: Vec<f64>,
    /// G times the mass of all layers.
    gm: f64,
}

impl<'a> Field<'a> {
    /// The field of `layers` of `grid`.
    pub fn new(grid: &'a Grid, layers: &Layers, g: f64, eps: f64) -> Self {
        let (mut potential, mut gradient) = (Vec::new(), Vec::new());
        for &r in &grid.radius {
            let (mut phi, mut slope) = (0.0, 0.0);
            for (s, &mass) in grid.middles().zip(&layers.0) {
                let far = ((r + s) * (r + s) + eps * eps).sqrt();
                let near = ((r - s) * (r - s) + eps * eps).sqrt();
                phi -= 2.0 * g * mass / (far + near);
                slope += 2.0 * g * mass * ((r + s) / far + (r - s) / near) / ((far + near) * (far + near));
            }
            potential.push(phi);
            gradient.push(slope);
        }
        Self { grid, potential, gradient, gm: g * layers.0.iter().sum::<f64>() }
    }

    /// Φ(r), between nodes by interpolation, beyond them as of a point mass.
    pub fn potential_at(&self, r: f64) -> f64 {
        self.read(&self.potential, r).unwrap_or(-self.gm / r)
    }

    /// (dΦ/dr) / r at `r`: the square of the angular speed of a circular orbit.
    pub fn angular_speed_squared(&self, r: f64) -> f64 {
        let gradient = self.read(&self.gradient, r).unwrap_or(self.gm / (r * r));
        gradient / r.max(self.grid.radius[0])
    }

    fn read(&self, table: &[f64], r: f64) -> Option<f64> {
        let &outermost = self.grid.radius.last()?;
        (r <= outermost).then(|| {
            let (interval, share) = self.grid.locate(r);
            table[interval] + share * (table[interval + 1] - table[interval])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hernquist(eps: f64) -> (Grid, Layers, f64) {
        let grid = Grid::new(1e-3, 100.0);
        let mut layers = Layers::empty(&grid);
        layers.add(grid.masses(crate::ic::hernquist::mass_fraction));
        (grid, layers, eps)
    }

    #[test]
    fn unsoftened_field_is_newtons() {
        let (grid, layers, eps) = hernquist(0.0);
        let field = Field::new(&grid, &layers, 2.0, eps);
        let missing = 2.0 * (1.0 / 101.0 - crate::ic::hernquist::mass_fraction(100.0) / 100.0);
        for r in [1e-3, 0.01, 0.1, 0.777, 1.0, 10.0, 99.0] {
            let expected = -2.0 / (1.0 + r) + missing;
            // Layers of 3% of the radius: relative errors of some 1e-4.
            assert!((field.potential_at(r) / expected - 1.0).abs() < 5e-4, "{r}");
            let expected = 2.0 / ((1.0 + r) * (1.0 + r) * r);
            assert!((field.angular_speed_squared(r) / expected - 1.0).abs() < 1e-3, "{r}");
        }
        assert!((field.potential_at(1000.0) + 2.0 * 0.980_3e-3).abs() < 1e-6);
    }

    #[test]
    fn softening_flattens_the_centre_and_gradient_fits_potential() {
        let (grid, layers, eps) = hernquist(0.1);
        let field = Field::new(&grid, &layers, 1.0, eps);
        assert!(field.angular_speed_squared(1e-3) < 1.05 * field.angular_speed_squared(3e-3));
        for k in (1..grid.radius.len() - 1).step_by(20) {
            let rise = field.potential[k + 1] - field.potential[k - 1];
            let slope = rise / (grid.radius[k + 1] - grid.radius[k - 1]);
            assert!((slope / field.gradient[k] - 1.0).abs() < 0.01, "{k}");
        }
    }
}
