//! The settings of heat conduction: `[grid]`, `[heat]`, its edges and regions, and `[initial]`.

use std::path::PathBuf;

use orrery_fields::heat::PlateFields;
use orrery_model::Precision;
use orrery_model::grid::{Edge, Grid, InitialField, RegionShape};

use super::FieldView;

/// A plate that conducts heat. All numbers are in the units of the case.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatCase {
    /// Nodes and spacings.
    pub grid: Grid,
    /// Conditions on the edges, in the order of [`Edge::ALL`].
    pub edges: [EdgeCondition; 4],
    /// Conductivity of the plate.
    pub conductivity: NodeValues,
    /// Heat capacity of the plate per volume. With 1, conductivities are diffusivities.
    pub heat_capacity: NodeValues,
    /// Heat source of the plate per volume and time. With heat capacity 1 it is a temperature per
    /// time.
    pub source: NodeValues,
    /// Parts of the plate with other properties. A later region covers an earlier one.
    pub regions: Vec<Region>,
    /// Precision of the temperature and of the arithmetic: single or double.
    pub precision: Precision,
    /// Label of the temperature in tables and pictures, for example "K". May be empty.
    pub unit: String,
    /// Criterion that ends the run before its end time.
    pub stop: Option<StopRange>,
    /// Initial temperature.
    pub initial: InitialState,
    /// Appearance of images.
    pub view: FieldView,
}

/// Values of all nodes of the plate.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValues {
    /// The same value everywhere.
    Uniform(f64),
    /// An NPY file of shape (ny, nx).
    File(PathBuf),
}

/// Condition on an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum EdgeCondition {
    /// Given temperatures.
    Fixed(EdgeProfile),
    /// Given heat flux into the plate, per length of the edge.
    Flux(EdgeProfile),
    /// No heat flux.
    Insulated,
    /// The opposite edge is the neighbour.
    Periodic,
}

/// Values along an edge: from south to north, or from west to east.
#[derive(Clone, Debug, PartialEq)]
pub enum EdgeProfile {
    /// The same value for all nodes.
    Constant(f64),
    /// Values at points that are spread evenly along the edge, linear in between. At least two.
    Points(Vec<f64>),
    /// An NPY file with one value per node.
    File(PathBuf),
}

/// Part of the plate with other properties. A property that is `None` remains as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Nodes of the region.
    pub shape: RegionShape,
    /// Conductivity.
    pub conductivity: Option<f64>,
    /// Heat capacity.
    pub heat_capacity: Option<f64>,
    /// Heat source.
    pub source: Option<f64>,
}

/// End of a run when the temperatures are nearly equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRange {
    /// The run ends when the largest minus the smallest temperature is below this.
    pub below: f64,
    /// Number of steps between two checks, at least 1.
    pub every: u64,
}

/// Initial temperature.
#[derive(Clone, Debug, PartialEq)]
pub enum InitialState {
    /// A formula.
    Formula(InitialField),
    /// An NPY file of shape (ny, nx).
    File(PathBuf),
    /// A PNG image with one pixel per node.
    Image {
        /// Path of the image.
        path: PathBuf,
        /// Temperature of black.
        low: f64,
        /// Temperature of white.
        high: f64,
    },
}

impl HeatCase {
    /// Returns the condition on an edge.
    pub fn edge(&self, edge: Edge) -> &EdgeCondition {
        &self.edges[edge as usize]
    }

    /// Returns true if all nodes have the same conductivity.
    pub fn has_uniform_conductivity(&self) -> bool {
        matches!(self.conductivity, NodeValues::Uniform(_))
            && self.regions.iter().all(|region| region.conductivity.is_none())
    }

    /// Returns true if all nodes have the same heat capacity.
    pub fn has_uniform_heat_capacity(&self) -> bool {
        let NodeValues::Uniform(plate) = self.heat_capacity else { return false };
        self.regions.iter().all(|region| region.heat_capacity.is_none_or(|c| c == plate))
    }

    /// Returns true if the case gives a heat capacity. Then heat has the unit of an energy, and not
    /// that of a temperature times an area.
    pub fn has_heat_capacity(&self) -> bool {
        self.heat_capacity != NodeValues::Uniform(1.0)
            || self.regions.iter().any(|region| region.heat_capacity.is_some())
    }

    /// Returns which properties differ between nodes.
    pub fn plate_fields(&self) -> PlateFields {
        let heat_capacity = !self.has_uniform_heat_capacity();
        PlateFields {
            conductivity: heat_capacity || !self.has_uniform_conductivity(),
            heat_capacity,
            source: self.has_source(),
        }
    }

    /// Returns true if a node has a heat source.
    pub fn has_source(&self) -> bool {
        self.source != NodeValues::Uniform(0.0)
            || self.regions.iter().any(|region| region.source.is_some_and(|source| source != 0.0))
    }

    /// Returns true if the run can compute an error that `[limits]` bounds: without fixed edges the
    /// heat content is known, and without fluxes and sources the range of temperatures.
    pub fn is_error_known(&self) -> bool {
        let has_fixed = self.edges.iter().any(|edge| matches!(edge, EdgeCondition::Fixed(_)));
        let has_flux = self.edges.iter().any(|edge| matches!(edge, EdgeCondition::Flux(_)));
        !has_fixed || !(has_flux || self.has_source())
    }

    /// Returns the paths in the case, which may be relative to its folder. The flag is true for
    /// files that a resumed run reads again. The initial state is in its checkpoint.
    pub(super) fn paths_mut(&mut self) -> Vec<(&mut PathBuf, bool)> {
        let edges = self.edges.iter_mut().filter_map(|edge| match edge {
            EdgeCondition::Fixed(EdgeProfile::File(path)) | EdgeCondition::Flux(EdgeProfile::File(path)) => {
                Some(path)
            }
            _ => None,
        });
        let nodes = [&mut self.conductivity, &mut self.heat_capacity, &mut self.source]
            .into_iter()
            .filter_map(|values| match values {
                NodeValues::File(path) => Some(path),
                NodeValues::Uniform(_) => None,
            });
        let initial = match &mut self.initial {
            InitialState::File(path) | InitialState::Image { path, .. } => Some(path),
            InitialState::Formula(_) => None,
        };
        let properties = edges.chain(nodes).map(|path| (path, true));
        properties.chain(initial.map(|path| (path, false))).collect()
    }
}
