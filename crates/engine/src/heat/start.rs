//! The heat problem of a case and its initial temperatures, with the files that the case names.

use std::path::{Path, PathBuf};

use orrery_fields::heat::{Conductivity, HeatCapacity, HeatError, HeatProblem};
use orrery_formats::{FieldData, Limits, read_field_png};
use orrery_gravity::settings::StepChoice;
use orrery_model::grid::{Boundaries, Boundary, Edge, EdgeValues, Grid, GridError};
use rayon::prelude::*;

use crate::case::{Case, EdgeCondition, EdgeProfile, HeatCase, InitialState, NodeValues, Region};
use crate::error::EngineError;
use crate::input_files::InputFiles;

/// Builds the problem of a case: reads the files of conductivity, heat capacity, source and edges,
/// and applies the regions in their order. The step of the case must be stable.
pub fn build_problem(case: &Case, heat: &HeatCase, files: &InputFiles) -> Result<HeatProblem, EngineError> {
    let problem = read_problem(case, heat, files)?;
    if let StepChoice::Fixed(dt) = case.time.step {
        let refused = |source| EngineError::Heat { origin: "[time]".to_owned(), source: Box::new(source) };
        problem.check_step(dt).map_err(refused)?;
    }
    Ok(problem)
}

/// Builds the problem of a case without its step.
fn read_problem(case: &Case, heat: &HeatCase, files: &InputFiles) -> Result<HeatProblem, EngineError> {
    let inputs = Inputs { case, grid: &heat.grid, files };
    let boundaries = on_all_edges(|edge| inputs.boundary(edge, heat.edge(edge)))?;
    let conductivity = inputs.conductivity(heat)?;
    let source = match heat.has_source() {
        true => {
            Some(inputs.painted("heat.source_file", &heat.source, &heat.regions, |region| region.source)?)
        }
        false => None,
    };
    let heat_capacity = inputs.heat_capacity(heat)?;
    HeatProblem::new(heat.grid, boundaries, conductivity, source, heat.precision)
        .and_then(|problem| problem.with_heat_capacity(heat_capacity))
        .map_err(|error| refused(&inputs, heat, error))
}

/// Returns the longest stable step of a case, whatever its step is. It depends on conductivity,
/// heat capacity and the kinds of the edges, so no other file is read.
pub fn max_stable_step(case: &Case, heat: &HeatCase, limits: &Limits) -> Result<f64, EngineError> {
    let files = InputFiles::new(limits);
    let inputs = Inputs { case, grid: &heat.grid, files: &files };
    let boundaries = on_all_edges(|edge| {
        Ok(match heat.edge(edge) {
            EdgeCondition::Fixed(_) => Boundary::fixed(0.0),
            EdgeCondition::Flux(_) | EdgeCondition::Insulated => Boundary::INSULATED,
            EdgeCondition::Periodic => Boundary::Periodic,
        })
    })?;
    let heat_capacity = inputs.heat_capacity(heat)?;
    let problem = HeatProblem::new(heat.grid, boundaries, inputs.conductivity(heat)?, None, heat.precision)
        .and_then(|problem| problem.with_heat_capacity(heat_capacity));
    Ok(problem.map_err(|error| refused(&inputs, heat, error))?.max_stable_step())
}

/// Returns the heat capacity of a case.
pub fn read_heat_capacity(
    case: &Case,
    heat: &HeatCase,
    limits: &Limits,
) -> Result<HeatCapacity, EngineError> {
    let files = InputFiles::new(limits);
    Inputs { case, grid: &heat.grid, files: &files }.heat_capacity(heat)
}

fn on_all_edges(boundary: impl Fn(Edge) -> Result<Boundary, EngineError>) -> Result<Boundaries, EngineError> {
    Ok(Boundaries {
        west: boundary(Edge::West)?,
        east: boundary(Edge::East)?,
        south: boundary(Edge::South)?,
        north: boundary(Edge::North)?,
    })
}

/// Returns the initial temperatures of `case`, one per node.
pub fn initial_values(
    case: &Case,
    heat: &HeatCase,
    problem: &HeatProblem,
    files: &InputFiles,
) -> Result<Vec<f64>, EngineError> {
    let inputs = Inputs { case, grid: &heat.grid, files };
    let (values, origin, key) = match &heat.initial {
        InitialState::Formula(formula) => {
            formula
                .validate(problem.boundaries())
                .map_err(|error| case.error_at("initial", EngineError::InitialState(error)))?;
            let mut values = vec![0.0; heat.grid.len()];
            values.par_chunks_exact_mut(heat.grid.nx).enumerate().for_each(|(j, row)| {
                formula.sample_row(&heat.grid, problem.boundaries(), j, row);
            });
            (values, "[initial]".to_owned(), "initial")
        }
        InitialState::File(path) => {
            let values = inputs.field("initial.file", path)?;
            (values, inputs.path(path).display().to_string(), "initial.file")
        }
        InitialState::Image { path, low, high } => {
            let mut values = inputs.image(path).map_err(|error| case.error_at("initial.image", error))?;
            values.iter_mut().for_each(|grey| *grey = low + (high - low) * *grey);
            (values, inputs.path(path).display().to_string(), "initial.image")
        }
    };
    problem
        .check_initial(&values)
        .map_err(|source| case.error_at(key, EngineError::Heat { origin, source: Box::new(source) }))?;
    Ok(values)
}

/// Returns the error of a problem with its origin: the file of the values, or else the section.
fn refused(inputs: &Inputs<'_>, heat: &HeatCase, error: HeatError) -> EngineError {
    let of_nodes = |key: &str, values: &NodeValues| match values {
        NodeValues::File(path) => Some((key.to_owned(), inputs.path(path))),
        NodeValues::Uniform(_) => None,
    };
    let file = match &error {
        HeatError::Conductivity { .. } | HeatError::NodeConductivity { .. } => {
            of_nodes("heat.conductivity_file", &heat.conductivity)
        }
        HeatError::HeatCapacity { .. } | HeatError::NodeHeatCapacity { .. } => {
            of_nodes("heat.heat_capacity_file", &heat.heat_capacity)
        }
        HeatError::NotFinite { field: "source", .. } => of_nodes("heat.source_file", &heat.source),
        HeatError::Grid(GridError::BoundaryNotFinite { edge, .. }) => match heat.edge(*edge) {
            EdgeCondition::Fixed(EdgeProfile::File(path)) | EdgeCondition::Flux(EdgeProfile::File(path)) => {
                Some((edge_file_key(*edge), inputs.path(path)))
            }
            _ => None,
        },
        _ => None,
    };
    let (key, origin) = match file {
        Some((key, path)) => (key, path.display().to_string()),
        None => ("heat".to_owned(), "[heat]".to_owned()),
    };
    inputs.case.error_at(&key, EngineError::Heat { origin, source: Box::new(error) })
}

/// Returns the path of the key with the file of an edge.
fn edge_file_key(edge: Edge) -> String {
    format!("heat.{}.file", edge.as_str())
}

/// The files that a case names, and the grid that they must fit.
struct Inputs<'a> {
    case: &'a Case,
    grid: &'a Grid,
    files: &'a InputFiles,
}

impl Inputs<'_> {
    fn path(&self, path: &Path) -> PathBuf {
        self.case.folder.join(path)
    }

    /// Reads the NPY file of the key at `key`, which has one value per node.
    fn field(&self, key: &str, path: &Path) -> Result<Vec<f64>, EngineError> {
        let path = self.path(path);
        let data = self.files.plane_npy(&path);
        data.and_then(|data| self.values_of(data, path, "values"))
            .map_err(|error| self.case.error_at(key, error))
    }

    /// Reads an image with one pixel per node, as grey values from 0 to 1.
    fn image(&self, path: &Path) -> Result<Vec<f64>, EngineError> {
        let path = self.path(path);
        let data = read_field_png(&path, &self.files.limits).map_err(EngineError::Input)?;
        self.values_of(data, path, "pixels")
    }

    /// Returns the values of a file that has the shape of the grid.
    fn values_of(&self, data: FieldData, path: PathBuf, noun: &'static str) -> Result<Vec<f64>, EngineError> {
        let (found, expected) = ([data.nx, data.ny], [self.grid.nx, self.grid.ny]);
        if found != expected {
            return Err(EngineError::FieldShape { path, found, expected, noun });
        }
        Ok(data.values)
    }

    fn boundary(&self, edge: Edge, condition: &EdgeCondition) -> Result<Boundary, EngineError> {
        Ok(match condition {
            EdgeCondition::Fixed(profile) => Boundary::Fixed(self.edge_values(edge, profile)?),
            EdgeCondition::Flux(profile) => Boundary::Flux(self.edge_values(edge, profile)?),
            EdgeCondition::Insulated => Boundary::INSULATED,
            EdgeCondition::Periodic => Boundary::Periodic,
        })
    }

    fn edge_values(&self, edge: Edge, profile: &EdgeProfile) -> Result<EdgeValues, EngineError> {
        let nodes = edge.nodes(self.grid);
        Ok(match profile {
            EdgeProfile::Constant(value) => EdgeValues::Constant(*value),
            EdgeProfile::Points(points) => EdgeValues::Profile(interpolate(points, nodes)),
            EdgeProfile::File(path) => {
                let values = self.edge_file(edge, path, nodes);
                EdgeValues::Profile(values.map_err(|error| self.case.error_at(&edge_file_key(edge), error))?)
            }
        })
    }

    /// Reads an NPY file with one value per node of an edge.
    fn edge_file(&self, edge: Edge, path: &Path, nodes: usize) -> Result<Vec<f64>, EngineError> {
        let path = self.path(path);
        let values = self.files.profile_npy(&path)?;
        if values.len() != nodes {
            let found = values.len();
            return Err(EngineError::ProfileLength { path, edge: edge.as_str(), found, nodes });
        }
        Ok(values)
    }

    /// Returns the conductivity of the plate with its regions.
    fn conductivity(&self, heat: &HeatCase) -> Result<Conductivity, EngineError> {
        Ok(match &heat.conductivity {
            NodeValues::Uniform(value) if heat.has_uniform_conductivity() => Conductivity::Uniform(*value),
            values => Conductivity::Field(self.painted(
                "heat.conductivity_file",
                values,
                &heat.regions,
                |region| region.conductivity,
            )?),
        })
    }

    /// Returns the heat capacity of the plate with its regions.
    fn heat_capacity(&self, heat: &HeatCase) -> Result<HeatCapacity, EngineError> {
        Ok(match &heat.heat_capacity {
            NodeValues::Uniform(value) if heat.has_uniform_heat_capacity() => HeatCapacity::Uniform(*value),
            values => HeatCapacity::Field(self.painted(
                "heat.heat_capacity_file",
                values,
                &heat.regions,
                |region| region.heat_capacity,
            )?),
        })
    }

    /// Returns one value per node: that of the plate, or of the last region that contains the node
    /// and has the property. `file_key` is the path of the key with the file of the plate.
    fn painted(
        &self,
        file_key: &str,
        plate: &NodeValues,
        regions: &[Region],
        property: impl Fn(&Region) -> Option<f64>,
    ) -> Result<Vec<f64>, EngineError> {
        let mut values = match plate {
            NodeValues::Uniform(value) => vec![*value; self.grid.len()],
            NodeValues::File(path) => self.field(file_key, path)?,
        };
        let Grid { nx, hx, hy, .. } = *self.grid;
        let painted: Vec<_> =
            regions.iter().filter_map(|region| Some((region.shape, property(region)?))).collect();
        values.par_chunks_exact_mut(nx).enumerate().for_each(|(j, row)| {
            for (shape, value) in &painted {
                for (i, node) in row.iter_mut().enumerate() {
                    if shape.contains([i as f64 * hx, j as f64 * hy]) {
                        *node = *value;
                    }
                }
            }
        });
        Ok(values)
    }
}

/// Returns one value per node of an edge, from points that are spread evenly along it.
pub(super) fn interpolate(points: &[f64], nodes: usize) -> Vec<f64> {
    let spaces = (points.len() - 1) as f64;
    let value = |node: usize| {
        let position = node as f64 * spaces / (nodes - 1) as f64;
        let k = (position as usize).min(points.len() - 2);
        let t = position - k as f64;
        points[k] * (1.0 - t) + points[k + 1] * t
    };
    (0..nodes).map(value).collect()
}
