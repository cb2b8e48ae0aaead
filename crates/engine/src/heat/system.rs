//! The field of a run and its operations.

use std::path::{Path, PathBuf};

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_fields::FieldColumn;
use orrery_fields::heat::{HeatError, HeatField, HeatProblem, HeatView, PlateFields};
use orrery_fields::pixels::pixel_mean_bytes;
use orrery_formats::{Block, FieldFrame, FieldLabels, FieldValues, write_field_npy, write_labelled_vti};
use orrery_model::Units;
use orrery_model::grid::{Boundary, Edge, Grid, PixelMeans, PixelWeights};
use serde_json::{Map, Value};

use super::painter::FieldPainter;
use super::record::{self, HeatMeasures};
use super::rounding::RoundingScale;
use super::solution::SineSolution;
use super::{PLOT, POST_MORTEM, node_count};
use crate::blocks::Blocks;
use crate::case::{Case, HeatCase, StopRange};
use crate::compute_device::Tuned;
use crate::error::EngineError;
use crate::input_files::InputHashes;
use crate::observers::Painter;
use crate::system::{
    ColumnValues, Dynamics, Row, Schema, Size, SnapshotLabels, SolutionError, Stamp, StateColumn,
    SystemError, WriteFn,
};

/// Name of the column with the temperatures, as differences from [`BASE`].
pub(super) const COLUMN: &str = "temperature";
/// Name of the column with the base temperature. It is absent if that is 0.
pub(super) const BASE: &str = "base";

/// A plate that conducts heat.
#[derive(Debug)]
pub struct HeatSystem {
    field: HeatField,
    /// True while observers look at the state a short time later.
    shows_ahead: bool,
    facts: PlateFacts,
    /// Hashes of the input files.
    inputs: InputHashes,
}

/// Properties of a plate that do not change during a run.
#[derive(Clone, Debug)]
pub(super) struct PlateFacts {
    /// Label of the temperature.
    pub unit: String,
    pub stop: Option<StopRange>,
    /// Properties that differ between nodes.
    pub fields: PlateFields,
    /// True if the case gives a heat capacity.
    pub has_heat_capacity: bool,
    /// Integral of the heat capacity over the plate.
    pub total_heat_capacity: f64,
    /// Bytes that images need on a device.
    pub image_bytes: u64,
    /// Heat per time from the sources of all nodes that are not fixed.
    pub source_rate: f64,
    /// True if no temperature leaves the range of the initial state: there is no flux and no
    /// source.
    pub keeps_range: bool,
    /// The error that `[limits]` bounds.
    pub known: KnownError,
    pub solution: Option<SineSolution>,
    /// Size of rounding errors in single precision.
    pub rounding: Option<RoundingScale>,
    /// Number of ranks that compute the plate.
    pub ranks: usize,
}

/// Error of a plate that can be computed from the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KnownError {
    /// Without fixed edges, all rates are constant and the heat content is known. The number is the
    /// heat capacity of the plate.
    HeatBalance(f64),
    /// Without flux and source, no temperature leaves the range of the first row.
    MaximumPrinciple,
    /// Nothing is known.
    None,
}

impl PlateFacts {
    /// Collects the properties of a problem, which is that of `case`.
    pub fn new(case: &Case, heat: &HeatCase, problem: &HeatProblem) -> Self {
        Self {
            unit: heat.unit.clone(),
            stop: heat.stop,
            fields: problem.fields(),
            has_heat_capacity: heat.has_heat_capacity(),
            total_heat_capacity: problem.total_heat_capacity(),
            image_bytes: image_bytes(case, heat),
            source_rate: source_rate(problem),
            keeps_range: keeps_range(problem),
            known: KnownError::of(problem),
            solution: SineSolution::of(case, heat, problem),
            rounding: RoundingScale::of(case, problem),
            ranks: 1,
        }
    }

    /// Returns an upper bound of the bytes that a run needs on the host.
    pub fn host_bytes(heat: &HeatCase, on_device: bool) -> u64 {
        let fields = heat.plate_fields();
        let nodes = (heat.grid.nx as u64).saturating_mul(heat.grid.ny as u64);
        let of_run = run_bytes(&heat.grid, heat.precision, fields, on_device);
        // At the start there are no copies of the temperatures yet. The problem has its fields and
        // the initial state in f64.
        let problem = 8 * (1 + fields.count());
        let copies = COPIES.saturating_mul(nodes).saturating_mul(precision_bytes(heat.precision));
        of_run.max(of_run.saturating_sub(copies).saturating_add(problem.saturating_mul(nodes)))
    }
}

impl KnownError {
    fn of(problem: &HeatProblem) -> Self {
        if !Edge::ALL.iter().any(|edge| problem.boundaries().on(*edge).is_fixed()) {
            return Self::HeatBalance(problem.total_heat_capacity());
        }
        if keeps_range(problem) { Self::MaximumPrinciple } else { Self::None }
    }
}

/// Returns true if there is no flux and no source.
pub(super) fn keeps_range(problem: &HeatProblem) -> bool {
    let is_closed = |edge: Edge| match problem.boundaries().on(edge) {
        Boundary::Flux(values) => (0..edge.nodes(problem.grid())).all(|k| values.at(k) == 0.0),
        Boundary::Fixed(_) | Boundary::Periodic => true,
    };
    problem.source().is_none() && Edge::ALL.into_iter().all(is_closed)
}

/// Returns the heat per time from the sources of all nodes that are not fixed. A node on an edge
/// has half a cell, and a node in a corner a quarter.
fn source_rate(problem: &HeatProblem) -> f64 {
    let Some(source) = problem.source() else { return 0.0 };
    let (grid, boundaries) = (problem.grid(), problem.boundaries());
    let weight = |k: usize, nodes: usize, is_periodic: bool| {
        if !is_periodic && (k == 0 || k == nodes - 1) { 0.5 } else { 1.0 }
    };
    let columns = boundaries.free_columns(grid);
    let row_sum = |j: usize| {
        let of_node = |i: usize| weight(i, grid.nx, boundaries.is_periodic_in_x()) * source[grid.index(i, j)];
        weight(j, grid.ny, boundaries.is_periodic_in_y()) * columns.clone().map(of_node).sum::<f64>()
    };
    boundaries.free_rows(grid).map(row_sum).sum::<f64>() * grid.hx * grid.hy
}

impl HeatSystem {
    pub(super) fn new(field: HeatField, facts: PlateFacts, inputs: InputHashes) -> Self {
        Self { field, shows_ahead: false, facts, inputs }
    }

    /// Returns the hashes of the input files that were read.
    pub(crate) fn input_hashes(&self) -> &InputHashes {
        &self.inputs
    }

    /// Sets the number of ranks, on which the memory of a device depends.
    pub(crate) fn with_ranks(mut self, ranks: usize) -> Self {
        self.facts.ranks = ranks;
        self
    }

    /// Returns the grid.
    pub fn grid(&self) -> &Grid {
        self.field.grid()
    }

    /// Returns the conditions on the edges.
    pub fn boundaries(&self) -> &orrery_model::grid::Boundaries {
        self.field.boundaries()
    }

    /// Returns true if no temperature can leave the range of the initial state.
    pub(super) fn keeps_range(&self) -> bool {
        self.facts.keeps_range
    }

    /// Returns the temperatures of all nodes in their precision. They are finite.
    pub fn column(&self) -> Result<FieldColumn, SystemError> {
        self.check_finite()?;
        Ok(self.view().column()?)
    }

    /// Returns the smallest and the largest temperature. All are finite.
    pub(super) fn range(&self) -> Result<(f64, f64), SystemError> {
        self.check_finite()?;
        Ok(self.view().range()?)
    }

    /// Returns the means of the temperatures over the pixels of an image. All temperatures are
    /// finite.
    pub(super) fn pixel_means(&self, weights: &PixelWeights) -> Result<PixelMeans, SystemError> {
        let found = self.view().pixel_means(weights)?;
        if !(found.min.is_finite() && found.max.is_finite()) {
            self.check_finite()?;
        }
        Ok(found)
    }

    /// Moves the field from the host to the ranks of a team, and to the `device` of this rank.
    /// Results depend neither on the number of ranks nor on the strategy.
    pub(crate) fn moved_to(
        self,
        team: &Team,
        device: Option<&Device>,
        tuned: Option<Tuned>,
    ) -> Result<Self, SystemError> {
        let (nodes, precision, is_variable) =
            (self.field.grid().len(), self.field.precision(), self.field.is_variable());
        let device = device.map(|device| {
            (device, tuned.and_then(|tuned| (tuned.heat)(device, nodes, precision, is_variable)))
        });
        Ok(Self { field: self.field.moved_to_team(team, device)?, ..self })
    }

    /// Computes the state after a step of length `dt`, which observers then see until
    /// [`Self::show_now`].
    pub(crate) fn show_ahead(&mut self, dt: f64) -> Result<(), SystemError> {
        self.field.ahead(dt)?;
        self.shows_ahead = true;
        Ok(())
    }

    /// Shows the state at its time again.
    pub(crate) fn show_now(&mut self) {
        self.shows_ahead = false;
    }

    fn view(&self) -> HeatView<'_> {
        if self.shows_ahead { self.field.last_ahead() } else { self.field.now() }
    }

    fn vti_labels(&self, time: f64) -> FieldLabels {
        let Grid { hx, hy, .. } = *self.grid();
        FieldLabels {
            name: Some(COLUMN.to_owned()),
            unit: Some(self.facts.unit.clone()).filter(|unit| !unit.is_empty()),
            time: Some(time),
            frame: Some(FieldFrame { origin: [0.0; 2], spacing: [hx, hy] }),
            ..FieldLabels::default()
        }
    }

    /// Returns a function that writes `column` at this time.
    fn column_writer(&self, column: FieldColumn, time: f64) -> WriteFn {
        let (grid, labels) = (*self.grid(), self.vti_labels(time));
        Box::new(move |path| {
            let values = match &column {
                FieldColumn::Single(values) => FieldValues::Single(values),
                FieldColumn::Double(values) => FieldValues::Double(values),
            };
            let written = match path.extension().is_some_and(|extension| extension == "vti") {
                true => write_labelled_vti(path, [grid.nx, grid.ny], &labels, values),
                false => write_field_npy(path, &grid, values),
            };
            written.map_err(EngineError::Output)
        })
    }
}

impl Dynamics for HeatSystem {
    fn size(&self) -> Size {
        node_count(self.grid().len() as u64)
    }

    fn method(&self) -> &'static str {
        super::METHOD
    }

    fn method_text(&self) -> String {
        "explicit five-point scheme".to_owned()
    }

    fn device(&self) -> Option<&Device> {
        self.field.device()
    }

    fn strategy_text(&self) -> Option<String> {
        self.device().map(|_| serde_json::json!({ "heat": self.field.strategy_name() }).to_string())
    }

    fn setup_text(&self) -> String {
        let Grid { nx, ny, .. } = self.grid();
        let (precision, strategy) = (self.field.precision().as_str(), self.field.strategy_name());
        let PlateFields { conductivity, heat_capacity, .. } = self.facts.fields;
        let properties = match (conductivity, heat_capacity) {
            (_, true) => "conductivity and heat capacity per node",
            (true, false) => "conductivity per node",
            (false, false) => "conductivity uniform",
        };
        format!("heat: {nx} x {ny} nodes, {properties}, {precision} precision, {strategy}")
    }

    fn host_bytes(&self) -> u64 {
        let on_device = self.device().is_some();
        run_bytes(self.grid(), self.field.precision(), self.facts.fields, on_device)
    }

    fn device_bytes(&self, _device: &Device) -> u64 {
        let PlateFacts { fields, image_bytes, ranks, .. } = self.facts;
        let slab = slab_of(self.grid(), ranks);
        HeatField::needed_bytes(&slab, self.field.precision(), fields, true).saturating_add(image_bytes)
    }

    fn adaptive_step(&self, _eta: f64) -> Result<f64, SystemError> {
        unreachable!("a case of heat has a fixed step")
    }

    fn steps_per_pass(&self) -> Option<u64> {
        Some(self.field.steps_per_pass())
    }

    fn advance(&mut self, dt: f64, steps: u64, _: &dyn Fn(u64) -> Stamp) -> Result<(), SystemError> {
        self.field.advance(dt, steps)?;
        if steps > 1 {
            self.field.wait()?;
        }
        Ok(())
    }

    fn check_finite(&self) -> Result<(), SystemError> {
        Ok(self.view().check_finite()?)
    }

    fn resolution_warning(&self) -> Result<Option<String>, SystemError> {
        let Some(rounding) = &self.facts.rounding else { return Ok(None) };
        let (view, field) = (self.view(), &self.field);
        let heat_rate = view.edge_fluxes()?.iter().sum::<f64>() + self.facts.source_rate;
        let mean_rate = heat_rate / field.total_heat_capacity();
        Ok(rounding.stall_warning(field.base(), view.range()?, mean_rate))
    }

    fn settling_check_every(&self) -> Option<u64> {
        self.facts.stop.map(|stop| stop.every)
    }

    fn is_settled(&self) -> Result<bool, SystemError> {
        let Some(StopRange { below, .. }) = self.facts.stop else { return Ok(false) };
        let (min, max) = self.view().range()?;
        Ok(max - min < below)
    }

    fn solution_errors(&self, now: Stamp) -> Result<Vec<SolutionError>, SystemError> {
        match &self.facts.solution {
            Some(solution) => Ok(match self.view().column()? {
                FieldColumn::Single(values) => solution.errors(self.grid(), &values, now),
                FieldColumn::Double(values) => solution.errors(self.grid(), &values, now),
            }),
            None => Ok(Vec::new()),
        }
    }

    fn schema(&self, units: &Units) -> Schema {
        record::schema(units, &self.facts)
    }

    fn measure(&self) -> Result<Vec<f64>, SystemError> {
        self.check_finite()?;
        let view = self.view();
        let (fluxes, sources) = (view.edge_fluxes()?, self.facts.source_rate);
        Ok(HeatMeasures::new(&view.measures()?, fluxes, sources).to_values())
    }

    fn columns(&self) -> Result<Vec<StateColumn<'_>>, SystemError> {
        self.check_finite()?;
        let block = match self.view().stored_column()? {
            FieldColumn::Single(values) => Block::Singles(values),
            FieldColumn::Double(values) => Block::Reals(values),
        };
        let owned = ColumnValues::Owned;
        let mut columns = vec![StateColumn { name: COLUMN, values: owned(block), is_constant: false }];
        let base = self.field.base();
        if base != 0.0 {
            let block = Block::Reals(vec![base]);
            columns.push(StateColumn { name: BASE, values: owned(block), is_constant: true });
        }
        Ok(columns)
    }

    fn capture_snapshot(&self, labels: &SnapshotLabels<'_>) -> Result<WriteFn, EngineError> {
        let now = Stamp { step: labels.step, time: labels.time };
        let column = self.column().map_err(|error| error.at(now))?;
        Ok(self.column_writer(column, labels.time))
    }

    fn snapshot_bytes(&self) -> u64 {
        self.size().count * precision_bytes(self.field.precision())
    }

    fn write_post_mortem(&self, folder: &Path, labels: &SnapshotLabels<'_>) -> Option<PathBuf> {
        let path = folder.join(POST_MORTEM);
        let column = self.view().column().ok()?;
        self.column_writer(column, labels.time)(&path).ok().map(|()| path)
    }

    fn new_painter(&self, case: &Case) -> Result<Box<dyn Painter>, EngineError> {
        let now = Stamp { step: 0, time: case.time.known_start() };
        Ok(Box::new(FieldPainter::new(case, self).map_err(|error| error.at(now))?))
    }

    fn resumed_painter(
        &self,
        case: &Case,
        state: &Map<String, Value>,
        columns: &mut Blocks,
    ) -> Result<Box<dyn Painter>, EngineError> {
        Ok(Box::new(FieldPainter::resume(case, self, state, columns)?))
    }

    fn listed_files(&self) -> &'static [(&'static str, &'static str)] {
        const { assert!(matches!(PLOT.as_bytes(), b"temperature")) };
        &[
            ("temperature.svg", "temperatures over time; values in conserved.csv"),
            ("snapshots", "temperatures of all nodes, for numpy or ParaView"),
        ]
    }

    fn summary_json(&self, first: &Row, last: &Row) -> Map<String, Value> {
        let Grid { nx, ny, .. } = self.grid();
        let mut fields = Map::new();
        fields.insert("nodes".into(), serde_json::json!([nx, ny]));
        fields.insert("solver".into(), self.method().into());
        fields.insert("precision".into(), self.field.precision().as_str().into());
        for (name, row) in [("start", first), ("end", last)] {
            fields.insert(name.into(), record::row_json(row));
        }
        fields
    }
}

/// Copies of the temperatures on the host: the state before the last step, and one that is written.
const COPIES: u64 = 2;

/// Returns an upper bound of the bytes that a run needs on the host after its start.
fn run_bytes(grid: &Grid, precision: orrery_model::Precision, fields: PlateFields, on_device: bool) -> u64 {
    let nodes = (grid.nx as u64).saturating_mul(grid.ny as u64).saturating_mul(precision_bytes(precision));
    let plate = match on_device {
        // Conductivities, heat capacities and sources, from which fluxes and heat are computed.
        true => nodes.saturating_mul(fields.count()),
        false => HeatField::needed_bytes(grid, precision, fields, false),
    };
    plate.saturating_add(COPIES.saturating_mul(nodes))
}

/// Returns an upper bound of the bytes that a run needs on a device.
pub(super) fn device_bytes(case: &Case, heat: &HeatCase, ranks: usize) -> u64 {
    let slab = slab_of(&heat.grid, ranks);
    HeatField::needed_bytes(&slab, heat.precision, heat.plate_fields(), true)
        .saturating_add(image_bytes(case, heat))
}

/// Returns the grid of the largest part of a rank. The number of ranks was checked before.
fn slab_of(grid: &Grid, ranks: usize) -> Grid {
    HeatField::largest_slab(grid, ranks).unwrap_or(*grid)
}

/// Returns an upper bound of the bytes that images need on a device.
fn image_bytes(case: &Case, heat: &HeatCase) -> u64 {
    pixel_mean_bytes(heat.grid.nx, case.image.size.body_pixels())
}

/// Returns the bytes of a number.
pub(crate) fn precision_bytes(precision: orrery_model::Precision) -> u64 {
    match precision {
        orrery_model::Precision::Single => 4,
        _ => 8,
    }
}

impl From<HeatError> for SystemError {
    fn from(error: HeatError) -> Self {
        match error {
            HeatError::Device(error) => Self::Device(error),
            HeatError::Team(error) => Self::Ranks { message: error.to_string() },
            // The case is checked when a run starts, so all others are values that are not finite.
            other => Self::NotFinite { at: None, found: other.to_string() },
        }
    }
}
