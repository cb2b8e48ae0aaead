//! The softened field of spherical layers.
//!
//! The potential of a layer of mass m and radius s at radius r, averaged over the layer, is
//!
//! φ(r) = −2 G m / (A + B),   A, B = ((r ± s)² + eps²)^{1/2}
//!
//! For eps = 0 this is −G m / max(r, s). Masses are stored per interval of a radial grid and the
//! field at its nodes. The mass inside a node is then exact, and the field is as smooth as the
//! density.

/// Number of intervals of the grid: 5 decades of radius in steps of 3%.
const INTERVALS: usize = 400;

/// Radii in equal steps of log r: `radius[k + 1] / radius[k]` is the same for all k.
pub struct RadialGrid {
    /// Nodes, ascending.
    pub radius: Vec<f64>,
    log_step: f64,
}

impl RadialGrid {
    /// Builds the grid from `innermost` to `outermost`.
    pub fn new(innermost: f64, outermost: f64) -> Self {
        let log_step = libm::log(outermost / innermost) / INTERVALS as f64;
        let mut radius: Vec<f64> =
            (0..INTERVALS).map(|k| innermost * libm::exp(log_step * k as f64)).collect();
        radius.push(outermost);
        Self { radius, log_step }
    }

    /// Iterates over the mean radius of the ball inside the first node and of each interval.
    pub fn interval_centres(&self) -> impl Iterator<Item = f64> + '_ {
        let ball = std::iter::once(2.0 / 3.0 * self.radius[0]);
        ball.chain(self.radius.windows(2).map(|ends| (ends[0] * ends[1]).sqrt()))
    }

    /// Returns the mass in the ball inside the first node and in each interval, for the cumulative
    /// mass `enclosed`, M(r).
    pub fn interval_masses(&self, enclosed: impl Fn(f64) -> f64) -> Vec<f64> {
        let within: Vec<f64> = self.radius.iter().map(|&r| enclosed(r)).collect();
        std::iter::once(within[0]).chain(within.windows(2).map(|ends| ends[1] - ends[0])).collect()
    }

    /// Returns the interval that contains `r`, and the position of `r` in it (0 to 1) in log r.
    fn interval_at(&self, r: f64) -> (usize, f64) {
        let steps = (libm::log(r / self.radius[0]) / self.log_step).clamp(0.0, INTERVALS as f64);
        let interval = (steps as usize).min(INTERVALS - 1);
        (interval, steps - interval as f64)
    }
}

/// Mass in the ball inside the first node of a grid and in each of its intervals.
#[derive(Clone)]
pub struct Layers(Vec<f64>);

impl Layers {
    /// Returns layers without mass.
    pub fn massless(grid: &RadialGrid) -> Self {
        Self(vec![0.0; grid.radius.len()])
    }

    /// Adds one mass to each layer.
    pub fn add_masses(&mut self, masses: Vec<f64>) {
        self.0.iter_mut().zip(masses).for_each(|(sum, mass)| *sum += mass);
    }
}

/// Potential and its gradient at the nodes of a grid.
pub struct RadialField<'a> {
    grid: &'a RadialGrid,
    /// Φ at each node.
    pub potential: Vec<f64>,
    /// dΦ/dr at each node.
    pub gradient: Vec<f64>,
    /// G times the mass of all layers.
    gm: f64,
}

impl<'a> RadialField<'a> {
    /// Computes the field of `layers` at the nodes of `grid`.
    pub fn new(grid: &'a RadialGrid, layers: &Layers, g: f64, eps: f64) -> Self {
        let (mut potential, mut gradient) = (Vec::new(), Vec::new());
        for &r in &grid.radius {
            let (mut phi, mut slope) = (0.0, 0.0);
            for (s, &mass) in grid.interval_centres().zip(&layers.0) {
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

    /// Φ(r), interpolated between nodes. Beyond the last node it is that of a point mass.
    pub fn potential_at(&self, r: f64) -> f64 {
        self.interpolate(&self.potential, r).unwrap_or(-self.gm / r)
    }

    /// (dΦ/dr) / r at `r`, the square of the angular speed of a circular orbit.
    pub fn angular_speed_squared(&self, r: f64) -> f64 {
        let gradient = self.interpolate(&self.gradient, r).unwrap_or(self.gm / (r * r));
        gradient / r.max(self.grid.radius[0])
    }

    /// Interpolates a table of node values at `r`. Returns `None` beyond the last node.
    fn interpolate(&self, table: &[f64], r: f64) -> Option<f64> {
        let &outermost = self.grid.radius.last()?;
        (r <= outermost).then(|| {
            let (interval, fraction) = self.grid.interval_at(r);
            table[interval] + fraction * (table[interval + 1] - table[interval])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hernquist_layers(eps: f64) -> (RadialGrid, Layers, f64) {
        let grid = RadialGrid::new(1e-3, 100.0);
        let mut layers = Layers::massless(&grid);
        layers.add_masses(grid.interval_masses(crate::ic::hernquist::mass_fraction));
        (grid, layers, eps)
    }

    #[test]
    fn unsoftened_field_matches_the_hernquist_potential() {
        let (grid, layers, eps) = hernquist_layers(0.0);
        let field = RadialField::new(&grid, &layers, 2.0, eps);
        let missing = 2.0 * (1.0 / 101.0 - crate::ic::hernquist::mass_fraction(100.0) / 100.0);
        for r in [1e-3, 0.01, 0.1, 0.777, 1.0, 10.0, 99.0] {
            let expected = -2.0 / (1.0 + r) + missing;
            // Layers of 3% of the radius give relative errors of about 1e-4.
            assert!((field.potential_at(r) / expected - 1.0).abs() < 5e-4, "{r}");
            let expected = 2.0 / ((1.0 + r) * (1.0 + r) * r);
            assert!((field.angular_speed_squared(r) / expected - 1.0).abs() < 1e-3, "{r}");
        }
        assert!((field.potential_at(1000.0) + 2.0 * 0.980_3e-3).abs() < 1e-6);
    }

    #[test]
    fn softening_flattens_the_centre_and_gradient_matches_the_potential() {
        let (grid, layers, eps) = hernquist_layers(0.1);
        let field = RadialField::new(&grid, &layers, 1.0, eps);
        assert!(field.angular_speed_squared(1e-3) < 1.05 * field.angular_speed_squared(3e-3));
        for k in (1..grid.radius.len() - 1).step_by(20) {
            let rise = field.potential[k + 1] - field.potential[k - 1];
            let slope = rise / (grid.radius[k + 1] - grid.radius[k - 1]);
            assert!((slope / field.gradient[k] - 1.0).abs() < 0.01, "{k}");
        }
    }
}
