//! The waves of a run and their operations.

use std::path::{Path, PathBuf};

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_fields::FieldColumn;
use orrery_fields::wave::device::WaveShape;
use orrery_fields::wave::{GridPlane, WaveError, WaveField, WaveProblem, WaveView};
use orrery_formats::{
    Block, FieldFrame, FieldLabels, FieldValues, Window, copy_window, write_volume_npy, write_volume_vti,
};
use orrery_model::Units;
use orrery_model::grid::{PixelMeans, PixelWeights};
use orrery_model::wave::{Side, Sides, WaveGrid};
use serde_json::{Map, Value};

use super::painter::WavePainter;
use super::seismograms::Survey;
use super::slice::Slice;
use super::start::{device_bytes, host_bytes};
use super::{PLOT, POST_MORTEM, record};
use crate::blocks::Blocks;
use crate::case::{Case, WaveCase};
use crate::compute_device::Tuned;
use crate::error::EngineError;
use crate::heat::{node_count, precision_bytes};
use crate::input_files::InputHashes;
use crate::observers::Painter;
use crate::system::{
    ColumnValues, Dynamics, Row, Schema, Size, SnapshotLabels, Stamp, StateColumn, SystemError, WriteFn,
};

/// Waves in a medium.
#[derive(Debug)]
pub struct WaveSystem {
    field: WaveField,
    /// True while observers look at the state a short time later.
    shows_ahead: bool,
    /// Label of the field.
    unit: String,
    order: u32,
    column_names: Vec<&'static str>,
    /// Nodes in snapshots.
    windows: [Window; 3],
    survey: Survey,
    slice: Slice,
    /// Upper bounds of the memory of a run: on the host, and on a device.
    host_bytes: u64,
    device_bytes: u64,
    /// Hashes of the input files.
    inputs: InputHashes,
}

impl WaveSystem {
    pub(super) fn new(
        field: WaveField,
        case: &Case,
        wave: &WaveCase,
        problem: &WaveProblem,
        inputs: InputHashes,
    ) -> Self {
        Self {
            shows_ahead: false,
            unit: wave.unit.clone(),
            order: problem.order().number(),
            column_names: column_names(wave),
            windows: wave.snapshot.nodes(&wave.grid).unwrap_or(wave.grid.nodes.map(Window::whole)),
            survey: Survey::new(case, wave, field.dt()),
            slice: Slice::new(wave, problem),
            host_bytes: host_bytes(case, wave, field.device().is_some()),
            device_bytes: device_bytes(case, wave, 1),
            inputs,
            field,
        }
    }

    /// Returns the hashes of the input files that were read.
    pub(crate) fn input_hashes(&self) -> &InputHashes {
        &self.inputs
    }

    /// Sets the number of ranks, on which the memory of a device depends.
    pub(crate) fn with_ranks(self, case: &Case, wave: &WaveCase, ranks: usize) -> Self {
        Self { device_bytes: device_bytes(case, wave, ranks), ..self }
    }

    /// Moves the waves from the host to the ranks of a team, and to the `device` of this rank.
    /// Results depend neither on the number of ranks nor on the strategy.
    pub(crate) fn moved_to(
        self,
        team: &Team,
        device: Option<&Device>,
        tuned: Option<Tuned>,
    ) -> Result<Self, SystemError> {
        let shape = WaveShape::new(self.grid(), self.order as usize / 2, self.field.precision());
        let is_variable = self.field.is_variable();
        let device =
            device.map(|device| (device, tuned.and_then(|tuned| (tuned.wave)(device, shape, is_variable))));
        Ok(Self { field: self.field.moved_to_team(team, device)?, ..self })
    }

    /// Returns the grid.
    pub fn grid(&self) -> &WaveGrid {
        self.field.grid()
    }

    /// Returns the values of all nodes in their precision. They are finite.
    pub fn column(&self) -> Result<FieldColumn, SystemError> {
        self.check_finite()?;
        Ok(self.view().column()?)
    }

    /// Returns the means of a plane over the pixels of an image. All values of the field are
    /// finite.
    pub(super) fn pixel_means(
        &self,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, SystemError> {
        let found = self.view().pixel_means(plane, weights)?;
        // In two dimensions the plane has all nodes.
        let is_checked = self.grid().dimensions() == 2 && found.min.is_finite() && found.max.is_finite();
        if !is_checked {
            self.check_finite()?;
        }
        Ok(found)
    }

    /// Returns the values at each receiver at the start and after each step, corrected unless the
    /// case leaves the error in time.
    pub fn seismograms(&self) -> Result<Vec<Vec<f64>>, SystemError> {
        Ok(self.survey.corrected(&self.field.seismograms()?).into_owned())
    }

    /// Computes the state a time `dt` later, at most one step, which observers then see until
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

    fn view(&self) -> WaveView<'_> {
        if self.shows_ahead { self.field.last_ahead() } else { self.field.now() }
    }

    /// Returns the part of a column that snapshots contain.
    fn windowed(&self, column: FieldColumn) -> FieldColumn {
        let nodes = self.grid().nodes;
        if self.windows == nodes.map(Window::whole) {
            return column;
        }
        // The case has checked the windows.
        match column {
            FieldColumn::Single(values) => {
                FieldColumn::Single(copy_window(&values, nodes, &self.windows).unwrap_or_default())
            }
            FieldColumn::Double(values) => {
                FieldColumn::Double(copy_window(&values, nodes, &self.windows).unwrap_or_default())
            }
        }
    }

    /// Returns a function that writes `column`, which is that of [`Self::windowed`], at this time.
    fn column_writer(&self, column: FieldColumn, time: f64) -> WriteFn {
        let nodes = self.windows.map(|window| window.len());
        let spacing = self.grid().spacing;
        let origin = [0, 1, 2].map(|axis| self.windows[axis].start as f64 * spacing[axis]);
        let spacing = [0, 1, 2].map(|axis| self.windows[axis].stride as f64 * spacing[axis]);
        let labels = FieldLabels {
            name: Some("u".to_owned()),
            unit: Some(self.unit.clone()).filter(|unit| !unit.is_empty()),
            time: Some(time),
            frame: Some(FieldFrame { origin, spacing }),
            other_arrays: Vec::new(),
        };
        Box::new(move |path| {
            let written = match path.extension().is_some_and(|extension| extension == "vti") {
                true => write_volume_vti(path, nodes, &labels, field_values(&column)),
                false => write_volume_npy(path, nodes, field_values(&column)),
            };
            written.map_err(EngineError::Output)
        })
    }
}

/// Borrows the values of a column.
fn field_values(column: &FieldColumn) -> FieldValues<'_> {
    match column {
        FieldColumn::Single(values) => FieldValues::Single(values),
        FieldColumn::Double(values) => FieldValues::Double(values),
    }
}

/// Returns the names of the columns of the state of a case.
pub(super) fn column_names(wave: &WaveCase) -> Vec<&'static str> {
    let layers = Sides::used(&wave.grid).iter().filter(|side| wave.sides.on(**side).layer().is_some());
    let of_layers = layers.flat_map(|side| match side {
        Side::XMin => ["psi_x_min", "zeta_x_min"],
        Side::XMax => ["psi_x_max", "zeta_x_max"],
        Side::YMin => ["psi_y_min", "zeta_y_min"],
        Side::YMax => ["psi_y_max", "zeta_y_max"],
        Side::ZMin => ["psi_z_min", "zeta_z_min"],
        Side::ZMax => ["psi_z_max", "zeta_z_max"],
    });
    let samples = (wave.receiver_count() > 0).then_some("samples");
    ["u", "u_previous"].into_iter().chain(of_layers).chain(samples).collect()
}

impl Dynamics for WaveSystem {
    fn size(&self) -> Size {
        node_count(self.grid().len() as u64)
    }

    fn method(&self) -> &'static str {
        super::METHOD
    }

    fn method_text(&self) -> String {
        format!("order {} in space, 2 in time", self.order)
    }

    fn device(&self) -> Option<&Device> {
        self.field.device()
    }

    fn strategy_text(&self) -> Option<String> {
        self.device().map(|_| serde_json::json!({ "wave": self.field.strategy_name() }).to_string())
    }

    fn setup_text(&self) -> String {
        let nodes = self.grid().nodes[..self.grid().dimensions()].iter().map(usize::to_string);
        let nodes = nodes.collect::<Vec<_>>().join(" x ");
        let (precision, strategy) = (self.field.precision().as_str(), self.field.strategy_name());
        let velocity = if self.field.is_variable() { "per node" } else { "uniform" };
        let order = self.order;
        format!("wave: {nodes} nodes, order {order}, velocity {velocity}, {precision} precision, {strategy}")
    }

    fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    fn device_bytes(&self, _device: &Device) -> u64 {
        self.device_bytes
    }

    fn adaptive_step(&self, _eta: f64) -> Result<f64, SystemError> {
        unreachable!("a case of waves has a fixed step")
    }

    fn steps_per_pass(&self) -> Option<u64> {
        Some(1)
    }

    fn advance(&mut self, dt: f64, steps: u64, _: &dyn Fn(u64) -> Stamp) -> Result<(), SystemError> {
        self.field.advance(dt, steps)?;
        // The run loop measures the time of several steps.
        if steps > 1 { Ok(self.field.wait()?) } else { Ok(()) }
    }

    fn check_finite(&self) -> Result<(), SystemError> {
        Ok(self.view().check_finite()?)
    }

    fn schema(&self, units: &Units) -> Schema {
        record::schema(units, &self.unit, self.field.grid().dimensions())
    }

    fn measure(&self) -> Result<Vec<f64>, SystemError> {
        self.check_finite()?;
        let measures = self.view().measures()?;
        Ok(vec![measures.energy, measures.largest])
    }

    fn columns(&self) -> Result<Vec<StateColumn<'_>>, SystemError> {
        self.check_finite()?;
        let mut found = self.field.columns()?;
        let column = |name: &&'static str| {
            let index = found.iter().position(|column| column.name == **name)?;
            let block = match found.swap_remove(index).values {
                FieldColumn::Single(values) => Block::Singles(values),
                FieldColumn::Double(values) => Block::Reals(values),
            };
            Some(StateColumn { name, values: ColumnValues::Owned(block), is_constant: false })
        };
        Ok(self.column_names.iter().filter_map(column).collect())
    }

    fn capture_snapshot(&self, labels: &SnapshotLabels<'_>) -> Result<WriteFn, EngineError> {
        let now = Stamp { step: labels.step, time: labels.time };
        let column = self.column().map_err(|error| error.at(now))?;
        Ok(self.column_writer(self.windowed(column), labels.time))
    }

    fn snapshot_bytes(&self) -> u64 {
        let nodes: u64 = self.windows.iter().map(|window| window.len() as u64).product();
        nodes * precision_bytes(self.field.precision())
    }

    fn capture_results(&self, now: Stamp) -> Result<Option<WriteFn>, EngineError> {
        if !self.survey.has_receivers() {
            return Ok(None);
        }
        let traces = self.field.seismograms().map_err(|error| SystemError::from(error).at(now))?;
        let survey = self.survey.clone();
        Ok(Some(Box::new(move |folder| survey.write(folder, &traces))))
    }

    fn draw_results(&self, folder: &Path, now: Stamp) -> Result<(), EngineError> {
        if !self.survey.has_receivers() {
            return Ok(());
        }
        let traces = self.field.seismograms().map_err(|error| SystemError::from(error).at(now))?;
        self.survey.draw(folder, &traces)
    }

    fn write_post_mortem(&self, folder: &Path, labels: &SnapshotLabels<'_>) -> Option<PathBuf> {
        let path = folder.join(POST_MORTEM);
        let column = self.view().column().ok()?;
        self.column_writer(self.windowed(column), labels.time)(&path).ok().map(|()| path)
    }

    fn new_painter(&self, case: &Case) -> Result<Box<dyn Painter>, EngineError> {
        Ok(Box::new(WavePainter::new(case, &self.slice)))
    }

    fn resumed_painter(
        &self,
        case: &Case,
        state: &Map<String, Value>,
        columns: &mut Blocks,
    ) -> Result<Box<dyn Painter>, EngineError> {
        Ok(Box::new(WavePainter::resume(case, &self.slice, state, columns)?))
    }

    fn listed_files(&self) -> &'static [(&'static str, &'static str)] {
        const { assert!(matches!(PLOT.as_bytes(), b"wave-energy")) };
        const FILES: &[(&str, &str)] = &[
            ("seismograms.png", "values at the receivers over time; also .svg, .npy, and .sgy in SI units"),
            ("wave-energy.svg", "energy over time; all values in conserved.csv"),
            ("snapshots", "values of all nodes, for numpy or ParaView"),
        ];
        if self.survey.has_receivers() { FILES } else { &FILES[1..] }
    }

    fn summary_json(&self, first: &Row, last: &Row) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("nodes".into(), serde_json::json!(self.grid().nodes));
        fields.insert("solver".into(), self.method().into());
        fields.insert("precision".into(), self.field.precision().as_str().into());
        for (name, row) in [("start", first), ("end", last)] {
            fields.insert(name.into(), record::row_json(row));
        }
        fields
    }
}

impl From<WaveError> for SystemError {
    fn from(error: WaveError) -> Self {
        match error {
            WaveError::Device(error) => Self::Device(error),
            WaveError::Team(error) => Self::Ranks { message: error.to_string() },
            // The case is checked when a run starts, so all others are values that are not finite.
            other => Self::NotFinite { at: None, found: other.to_string() },
        }
    }
}
