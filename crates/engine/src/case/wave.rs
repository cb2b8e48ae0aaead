//! The settings of acoustic waves: `[grid]` and `[wave]` with its sources, receivers and layers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use orrery_fields::wave::{SpaceOrder, TimeDispersion};
use orrery_formats::Window;
use orrery_gravity::settings::StepChoice;
use orrery_model::Precision;
use orrery_model::wave::{Sides, VelocityModel, WaveGrid};

use super::{Case, FieldView, Physics, Plane};

/// Waves in a medium at rest. All numbers are in the units of the case.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveCase {
    /// Nodes and spacings.
    pub grid: WaveGrid,
    /// Conditions on the sides.
    pub sides: Sides,
    /// Order of the scheme in space.
    pub order: SpaceOrder,
    /// Treatment of the error in time. `None` in a run of an earlier version, whose waves are raw.
    pub time_dispersion: Option<TimeDispersion>,
    /// Velocity of the medium.
    pub velocity: VelocitySource,
    /// Parts of the medium with another velocity. A later region covers an earlier one.
    pub regions: Vec<VelocityRegion>,
    /// Number of the shot that is computed: that of its sources. `None` if there are several shots
    /// and none of them is selected.
    pub shot: Option<u64>,
    /// Sources of all shots.
    pub sources: Vec<SourceCase>,
    /// Lines of receivers.
    pub receivers: Vec<ReceiverLine>,
    /// Precision of the field and of the arithmetic: single or double.
    pub precision: Precision,
    /// Label of the field in tables and pictures, for example "Pa". May be empty.
    pub unit: String,
    /// Colours of images.
    pub view: FieldView,
    /// Plane of images.
    pub slice: SliceView,
    /// Nodes in snapshots.
    pub snapshot: SnapshotWindow,
}

/// Plane of a volume that images show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceView {
    /// Direction of the plane. In two dimensions it is not used.
    pub plane: Plane,
    /// Position on the third axis. `None` is that of the first source.
    pub position: Option<f64>,
    /// Whether the velocity is drawn under the waves.
    pub shows_velocity: bool,
}

/// Part of the grid that snapshots contain. The third axis is not used in two dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SnapshotWindow {
    /// Every stride-th node of an axis is written.
    pub stride: u64,
    /// Smallest coordinates.
    pub from: [f64; 3],
    /// Largest coordinates. `None` is the end of an axis.
    pub to: [Option<f64>; 3],
}

impl SnapshotWindow {
    /// Returns the nodes of each axis. A range without a node is an error with the number of its
    /// axis.
    pub fn nodes(&self, grid: &WaveGrid) -> Result<[Window; 3], usize> {
        /// Rounding errors of coordinates are far below this fraction of a spacing.
        const TOLERANCE: f64 = 1e-6;
        let mut windows = [Window::whole(1); 3];
        for axis in 0..grid.dimensions() {
            let (nodes, h) = (grid.nodes[axis], grid.spacing[axis]);
            let start = (self.from[axis] / h - TOLERANCE).ceil().max(0.0) as usize;
            let last =
                self.to[axis].map_or(nodes.saturating_sub(1) as f64, |to| (to / h + TOLERANCE).floor());
            if last < start as f64 || start >= nodes {
                return Err(axis);
            }
            let end = (last as usize).min(nodes - 1) + 1;
            windows[axis] = Window { start, end, stride: self.stride as usize };
        }
        Ok(windows)
    }
}

/// Velocity of the medium.
#[derive(Clone, Debug, PartialEq)]
pub enum VelocitySource {
    /// A function of depth.
    Model(VelocityModel),
    /// An NPY file of shape (ny, nx), or (nz, ny, nx) in three dimensions, or a SEG-Y file.
    File(PathBuf),
}

/// Part of the medium with another velocity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VelocityRegion {
    /// Nodes of the region.
    pub shape: VelocityShape,
    /// Velocity in the region. `None` is a wall, which reflects waves.
    pub velocity: Option<f64>,
}

/// Shape of a region. In two dimensions its third coordinates are not used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VelocityShape {
    /// A box with sides along the axes.
    Box {
        /// Corner with the smallest coordinates.
        corner: [f64; 3],
        /// Extents.
        size: [f64; 3],
    },
    /// A ball, which is a disc in two dimensions.
    Ball {
        /// Centre.
        centre: [f64; 3],
        /// Radius.
        radius: f64,
    },
}

impl VelocityShape {
    /// Returns true if the point is in the region of a grid with this number of dimensions. Points
    /// on its surface belong to it, also if rounding places them slightly outside.
    pub fn contains(&self, point: [f64; 3], dimensions: usize) -> bool {
        /// Rounding errors of coordinates are far below this fraction of the size.
        const TOLERANCE: f64 = 1e-9;
        match *self {
            Self::Box { corner, size } => (0..dimensions).all(|axis| {
                let (offset, margin) = (point[axis] - corner[axis], TOLERANCE * size[axis]);
                (-margin..=size[axis] + margin).contains(&offset)
            }),
            Self::Ball { centre, radius } => {
                let d2: f64 = (0..dimensions).map(|axis| (point[axis] - centre[axis]).powi(2)).sum();
                d2 <= (radius * (1.0 + TOLERANCE)).powi(2)
            }
        }
    }
}

/// A point source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceCase {
    /// Number of the shot to which it belongs, from 1.
    pub shot: u64,
    /// Position.
    pub position: [f64; 3],
    /// Time function.
    pub wavelet: WaveletSource,
}

/// Time function of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum WaveletSource {
    /// A Ricker wavelet.
    Ricker {
        /// Frequency at which the spectrum is largest.
        frequency: f64,
        /// Time of the maximum.
        delay: f64,
        /// Maximum.
        amplitude: f64,
    },
    /// A sine.
    Sine {
        /// Frequency.
        frequency: f64,
        /// Time of its start.
        delay: f64,
        /// Amplitude.
        amplitude: f64,
    },
    /// Samples in an NPY file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Time between two samples.
        interval: f64,
        /// Factor of the samples.
        amplitude: f64,
    },
}

/// Receivers along a line, or a single one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverLine {
    /// Position of the first receiver.
    pub first: [f64; 3],
    /// Distance from one receiver to the next.
    pub spacing: [f64; 3],
    /// Number of receivers, at least 1.
    pub count: u64,
}

impl ReceiverLine {
    /// Returns the position of the receiver with this index.
    pub fn position(&self, index: u64) -> [f64; 3] {
        [0, 1, 2].map(|axis| self.first[axis] + index as f64 * self.spacing[axis])
    }

    /// Returns the positions of the receivers.
    pub fn positions(self) -> impl Iterator<Item = [f64; 3]> {
        (0..self.count).map(move |index| self.position(index))
    }
}

impl WaveCase {
    /// Returns the sources of the shot that is computed, or of all shots if none is selected, with
    /// their indices among all sources.
    pub fn shot_sources(&self) -> impl Iterator<Item = (usize, &SourceCase)> {
        self.sources.iter().enumerate().filter(|(_, source)| self.shot.is_none_or(|shot| source.shot == shot))
    }

    /// Returns the numbers of all shots in ascending order.
    pub fn shots(&self) -> Vec<u64> {
        let numbers: BTreeSet<u64> = self.sources.iter().map(|source| source.shot).collect();
        numbers.into_iter().collect()
    }

    /// Returns the number of receivers.
    pub fn receiver_count(&self) -> u64 {
        self.receivers.iter().fold(0, |sum, line| sum.saturating_add(line.count))
    }

    /// Returns true if all nodes have the same velocity.
    pub fn has_uniform_velocity(&self) -> bool {
        matches!(self.velocity, VelocitySource::Model(VelocityModel::Constant { .. }))
            && self.regions.is_empty()
    }

    /// Returns true if a region is a wall.
    pub fn has_walls(&self) -> bool {
        self.regions.iter().any(|region| region.velocity.is_none())
    }

    /// Returns the paths in the case, which may be relative to its folder. The flag is true for
    /// files that a resumed run reads again.
    pub(super) fn paths_mut(&mut self) -> Vec<(&mut PathBuf, bool)> {
        let velocity = match &mut self.velocity {
            VelocitySource::File(path) => Some((path, true)),
            VelocitySource::Model(_) => None,
        };
        let wavelets = self.sources.iter_mut().filter_map(|source| match &mut source.wavelet {
            WaveletSource::File { path, .. } => Some((path, true)),
            WaveletSource::Ricker { .. } | WaveletSource::Sine { .. } => None,
        });
        velocity.into_iter().chain(wavelets).collect()
    }
}

impl Case {
    /// Leaves the error in time as it is if the run of a resumed case has no setting for it: the
    /// run started before there was one.
    pub(crate) fn keep_time_dispersion_of(&mut self, run: &Self) {
        if let (Physics::Wave(wave), Some(run)) = (&mut self.physics, run.wave())
            && run.time_dispersion.is_none()
        {
            wave.time_dispersion = None;
        }
    }

    /// Moves the end of a case of waves to the end of a step, at most one step later. The scheme
    /// needs the state after two full steps, so the last step cannot be shorter.
    pub(super) fn complete_last_step(&mut self) {
        let (Physics::Wave(_), StepChoice::Fixed(dt)) = (&self.physics, self.time.step) else { return };
        // Rounding errors of an end that is a multiple of the step are far below this.
        let steps = (self.time.end / dt - 1e-6).ceil();
        if steps >= 1.0 && steps.is_finite() {
            self.time.end = steps * dt;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_on_the_surface_of_a_region_belong_to_it() {
        let cube = VelocityShape::Box { corner: [0.1; 3], size: [0.2; 3] };
        assert!(cube.contains([0.1, 0.30000000000000004, 0.2], 3));
        assert!(!cube.contains([0.1, 0.31, 0.2], 3) && !cube.contains([0.1, 0.2, 0.4], 3));
        // In two dimensions z is not used.
        assert!(cube.contains([0.1, 0.2, 9.0], 2));
        let ball = VelocityShape::Ball { centre: [1.0; 3], radius: 0.5 };
        assert!(ball.contains([1.5, 1.0, 1.0], 3) && ball.contains([1.5, 1.0, 5.0], 2));
        assert!(!ball.contains([1.4, 1.4, 1.0], 2));
    }

    #[test]
    fn a_window_has_the_nodes_of_its_range() {
        let grid = WaveGrid { nodes: [11, 21, 1], spacing: [0.1, 0.5, 0.5] };
        let whole = SnapshotWindow { stride: 1, from: [0.0; 3], to: [None; 3] };
        assert_eq!(whole.nodes(&grid), Ok([Window::whole(11), Window::whole(21), Window::whole(1)]));
        let part = SnapshotWindow { stride: 2, from: [0.3, 1.2, 0.0], to: [Some(0.7), Some(99.0), None] };
        let windows = part.nodes(&grid).unwrap();
        assert_eq!(windows[0], Window { start: 3, end: 8, stride: 2 });
        assert_eq!(windows[1], Window { start: 3, end: 21, stride: 2 });
        // Between two nodes, and beyond the last one.
        assert_eq!(
            SnapshotWindow { from: [0.31, 0.0, 0.0], to: [Some(0.39), None, None], ..whole }.nodes(&grid),
            Err(0)
        );
        assert_eq!(SnapshotWindow { from: [0.0, 10.2, 0.0], ..whole }.nodes(&grid), Err(1));
    }

    #[test]
    fn receivers_have_equal_distances() {
        let line = ReceiverLine { first: [1.0, 2.0, 0.0], spacing: [0.5, 0.0, 0.0], count: 3 };
        let positions: Vec<_> = line.positions().collect();
        assert_eq!(positions, [[1.0, 2.0, 0.0], [1.5, 2.0, 0.0], [2.0, 2.0, 0.0]]);
    }
}
