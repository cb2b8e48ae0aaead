//! The state of a heat problem, on the host or on a device.

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Grid, PixelMeans, PixelWeights};
use rayon::prelude::*;

use super::base::base_temperature;
use super::cpu::HeatCpuStrategy;
use super::device::{DeviceHeat, HeatDeviceStrategy, StoredField};
use super::team::{HeatCommand, HeatPhysics, TeamHeat, divided_rows};
use super::{Conductivity, FieldMeasures, HeatError, HeatProblem, HostHeat, Plate, PlateFields};
use crate::team::LedField;
use crate::{DeviceSetup, FieldColumn, Scalar};

/// A device, and the strategy that computes steps on it.
pub type HeatDeviceSetup = DeviceSetup<HeatDeviceStrategy>;

impl HeatDeviceSetup {
    /// Returns the default strategy for a problem.
    pub fn new(device: &Device, problem: &HeatProblem) -> Self {
        let is_variable = matches!(problem.conductivity(), Conductivity::Field(_));
        let strategy =
            HeatDeviceStrategy::default_for(device, problem.grid().len(), problem.precision(), is_variable);
        Self { device: device.clone(), strategy }
    }
}

/// A field that conducts heat, on the host or on a device.
///
/// For example, a hot plate between cold edges:
///
/// ```
/// use orrery_fields::heat::{Conductivity, HeatField, HeatProblem};
/// use orrery_model::Precision;
/// use orrery_model::grid::{Boundaries, Boundary, Grid};
///
/// let grid = Grid { nx: 65, ny: 65, hx: 1.0 / 64.0, hy: 1.0 / 64.0 };
/// let cold_edges = Boundaries::uniform(Boundary::fixed(0.0));
/// let problem =
///     HeatProblem::new(grid, cold_edges, Conductivity::Uniform(1.0), None, Precision::Double)?;
/// let dt = problem.max_stable_step();
///
/// // `None` keeps the field on the CPU. The nodes of fixed edges get their values here.
/// let mut field = HeatField::new(&problem, &vec![1.0; grid.len()], None)?;
/// field.advance(dt, 100)?;
/// let measures = field.now().measures()?;
/// assert_eq!(measures.min, 0.0);
/// assert!(measures.max <= 1.0 && measures.heat_content < 0.9);
///
/// // Heat flows out through all edges.
/// assert!(field.now().edge_fluxes()?.iter().all(|&flux| flux < 0.0));
///
/// // The state half a step later, without a change of the state.
/// let content_later = field.ahead(0.5 * dt)?.measures()?.heat_content;
/// assert!(content_later < measures.heat_content);
/// assert_eq!(field.now().measures()?, measures);
/// # Ok::<(), orrery_fields::heat::HeatError>(())
/// ```
#[derive(Debug)]
pub struct HeatField {
    grid: Grid,
    boundaries: Boundaries,
    precision: Precision,
    max_stable_step: f64,
    total_heat_capacity: f64,
    /// Temperature to which the stored values are differences.
    base: f64,
    /// Whether the conductivity differs between nodes.
    is_variable: bool,
    state: Box<dyn LedField<HeatPhysics>>,
}

impl HeatField {
    /// Rounds the initial state, one value per node, and moves it to the device of `setup`, or
    /// keeps it on the host if it is `None`. Fixed nodes get the values of their edges. In single
    /// precision the field chooses a base temperature and stores differences from it.
    pub fn new(
        problem: &HeatProblem,
        initial: &[f64],
        setup: Option<&HeatDeviceSetup>,
    ) -> Result<Self, HeatError> {
        Self::new_in_team(&Team::alone(), problem, initial, setup)
    }

    /// As [`HeatField::new`], computed by all ranks of a team. This rank is the leader, and the
    /// others call [`follow`](super::follow) until the field is dropped. `setup` is the device of
    /// this rank. All results have the bits of a field on one rank.
    pub fn new_in_team(
        team: &Team,
        problem: &HeatProblem,
        initial: &[f64],
        setup: Option<&HeatDeviceSetup>,
    ) -> Result<Self, HeatError> {
        problem.check_initial(initial)?;
        let base = base_temperature(problem, initial);
        let column = match problem.precision() {
            Precision::Single => f32::into_column(rounded(problem, initial, base)),
            _ => f64::into_column(rounded(problem, initial, base)),
        };
        Ok(Self::restore_in_team(team, problem, column, setup)?.with_base(base))
    }

    /// Sets the temperature to which the stored values are differences.
    pub fn with_base(self, base: f64) -> Self {
        Self { base, ..self }
    }

    /// Continues from a stored state, the result of [`HeatView::stored_column`]. Its base
    /// temperature is 0 unless [`HeatField::with_base`] sets another one.
    pub fn restore(
        problem: &HeatProblem,
        column: FieldColumn,
        setup: Option<&HeatDeviceSetup>,
    ) -> Result<Self, HeatError> {
        Self::restore_in_team(&Team::alone(), problem, column, setup)
    }

    /// As [`HeatField::restore`], computed by all ranks of a team, whose leader this rank is.
    pub fn restore_in_team(
        team: &Team,
        problem: &HeatProblem,
        column: FieldColumn,
        setup: Option<&HeatDeviceSetup>,
    ) -> Result<Self, HeatError> {
        problem.check_len("stored state", column.len())?;
        let state = match problem.precision() {
            Precision::Single => restored::<f32>(team, problem, column, setup)?,
            _ => restored::<f64>(team, problem, column, setup)?,
        };
        Ok(Self {
            grid: *problem.grid(),
            boundaries: problem.boundaries().clone(),
            precision: problem.precision(),
            max_stable_step: problem.max_stable_step(),
            total_heat_capacity: problem.total_heat_capacity(),
            base: 0.0,
            is_variable: problem.fields().conductivity,
            state,
        })
    }

    /// Returns an upper bound of the bytes that a field needs, on the host or on a device. The
    /// memory of the [`HeatProblem`] and of [`HeatView::pixel_means`] is not included.
    pub fn needed_bytes(grid: &Grid, precision: Precision, fields: PlateFields, is_on_device: bool) -> u64 {
        let needed = match (precision, is_on_device) {
            (Precision::Single, false) => HostHeat::<f32>::needed_bytes,
            (Precision::Single, true) => DeviceHeat::<f32>::needed_bytes,
            (_, false) => HostHeat::<f64>::needed_bytes,
            (_, true) => DeviceHeat::<f64>::needed_bytes,
        };
        needed(grid.nx, grid.ny, fields)
    }

    /// Computes `steps` steps of length `dt`. On a device the call does not wait for them.
    pub fn advance(&mut self, dt: f64, steps: u64) -> Result<(), HeatError> {
        self.check_step(dt)?;
        self.state.run(HeatCommand::Advance { dt, steps }).map(drop)
    }

    /// Returns the current state.
    pub fn now(&self) -> HeatView<'_> {
        self.view(StoredField::State)
    }

    /// Returns the state after one step of length `dt`. The field stays at its time.
    ///
    /// The result uses the memory that the next step overwrites.
    pub fn ahead(&mut self, dt: f64) -> Result<HeatView<'_>, HeatError> {
        self.check_step(dt)?;
        self.state.run(HeatCommand::StepAhead { dt })?;
        Ok(self.last_ahead())
    }

    /// Returns the result of the last call of [`HeatField::ahead`]. After a later call of
    /// [`HeatField::advance`] its values have no meaning.
    pub fn last_ahead(&self) -> HeatView<'_> {
        self.view(StoredField::Ahead)
    }

    fn view(&self, stored: StoredField) -> HeatView<'_> {
        HeatView { field: self, stored }
    }

    /// Waits until the steps on a device are complete, as far as this rank computes them.
    pub fn wait(&self) -> Result<(), HeatError> {
        self.state.wait()
    }

    /// Moves the field to a device. Without a strategy, it uses the default one.
    ///
    /// # Panics
    /// If several ranks compute the field.
    pub fn moved_to(self, device: &Device, strategy: Option<HeatDeviceStrategy>) -> Result<Self, HeatError> {
        self.moved_to_team(&Team::alone(), Some((device, strategy)))
    }

    /// Divides the field among the ranks of a team. This rank is the leader, and the others call
    /// [`follow`](super::follow) until the field is dropped. `device` is that of this rank with its
    /// strategy, `None` for the CPU. Without a strategy, it uses the default one.
    ///
    /// # Panics
    /// If several ranks compute the field already.
    pub fn moved_to_team(
        self,
        team: &Team,
        device: Option<(&Device, Option<HeatDeviceStrategy>)>,
    ) -> Result<Self, HeatError> {
        Ok(Self { state: self.state.moved_to(team, device)?, ..self })
    }

    /// Returns the grid of the largest of the slabs into which `ranks` ranks divide a grid, with
    /// its ghost rows, for [`HeatField::needed_bytes`]. Fails if there are too many ranks.
    pub fn largest_slab(grid: &Grid, ranks: usize) -> Result<Grid, HeatError> {
        let slabs = divided_rows(grid.ny, ranks)?;
        let ghosts = if ranks > 1 { 2 * HeatCpuStrategy::MAX_STEPS_PER_PASS } else { 0 };
        let rows = slabs.iter().map(|slab| slab.len()).max().unwrap_or(0);
        Ok(Grid { ny: rows + ghosts, ..*grid })
    }

    /// Returns true if the conductivity differs between nodes.
    pub fn is_variable(&self) -> bool {
        self.is_variable
    }

    /// Returns the temperature to which the stored values are differences. It is 0 in double
    /// precision.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// Returns the heat capacity of the plate.
    pub fn total_heat_capacity(&self) -> f64 {
        self.total_heat_capacity
    }

    /// Returns the grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the conditions on the edges.
    pub fn boundaries(&self) -> &Boundaries {
        &self.boundaries
    }

    /// Returns the precision of state and arithmetic.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the device of the field, `None` on the host.
    pub fn device(&self) -> Option<&Device> {
        self.state.description().device.as_ref()
    }

    /// Returns the name of the strategy for reports, for example "AVX-512, 16 steps per pass".
    pub fn strategy_name(&self) -> String {
        self.state.description().strategy_name.clone()
    }

    /// Returns the number of steps that one pass over the memory takes.
    pub fn steps_per_pass(&self) -> u64 {
        self.state.description().steps_per_pass
    }

    fn check_step(&self, dt: f64) -> Result<(), HeatError> {
        super::problem::check_step(dt, self.max_stable_step)
    }
}

/// The state of a [`HeatField`], or the state a short time later.
#[derive(Clone, Copy, Debug)]
pub struct HeatView<'a> {
    field: &'a HeatField,
    stored: StoredField,
}

impl HeatView<'_> {
    /// Returns minimum, maximum and heat content, in one pass over the field.
    pub fn measures(&self) -> Result<FieldMeasures, HeatError> {
        let HeatField { state, base, total_heat_capacity, .. } = self.field;
        let stored = state.run(HeatCommand::Measures { field: self.stored })?.measures();
        if *base == 0.0 {
            return Ok(stored);
        }
        let FieldMeasures { min, max, heat_content } = stored;
        Ok(FieldMeasures {
            min: base + min,
            max: base + max,
            heat_content: base * total_heat_capacity + heat_content,
        })
    }

    /// Returns minimum and maximum.
    pub fn range(&self) -> Result<(f64, f64), HeatError> {
        let FieldMeasures { min, max, .. } = self.measures()?;
        Ok((min, max))
    }

    /// Returns the heat per time that flows into the plate through each edge, in the order of
    /// [`Edge::ALL`](orrery_model::grid::Edge::ALL).
    pub fn edge_fluxes(&self) -> Result<[f64; 4], HeatError> {
        let fluxes = self.field.state.run(HeatCommand::EdgeFluxes { field: self.stored })?.numbers();
        Ok(std::array::from_fn(|edge| fluxes[edge]))
    }

    /// Returns the differences of all nodes from [`HeatField::base`], as they are stored.
    pub fn stored_column(&self) -> Result<FieldColumn, HeatError> {
        Ok(self.field.state.run(HeatCommand::Values { field: self.stored })?.column())
    }

    /// Returns the temperatures of all nodes, rounded to their precision.
    pub fn column(&self) -> Result<FieldColumn, HeatError> {
        let base = self.field.base;
        Ok(match self.stored_column()? {
            FieldColumn::Single(mut values) if base != 0.0 => {
                values.par_iter_mut().for_each(|value| *value = (base + f64::from(*value)) as f32);
                FieldColumn::Single(values)
            }
            other => other,
        })
    }

    /// Returns the means over the pixels of a picture of the plate, and the range of the values.
    /// From a device only the means are copied.
    pub fn pixel_means(&self, weights: &PixelWeights) -> Result<PixelMeans, HeatError> {
        let command = HeatCommand::PixelMeans { field: self.stored, division: weights.division() };
        let PixelMeans { mut means, mut min, mut max } = self.field.state.run(command)?.means();
        let base = self.field.base;
        if base != 0.0 {
            means.iter_mut().chain([&mut min, &mut max]).for_each(|value| *value += base);
        }
        Ok(PixelMeans { means, min, max })
    }

    /// Returns the temperatures of all nodes in f64. They have all digits of the state.
    pub fn values(&self) -> Result<Vec<f64>, HeatError> {
        let base = self.field.base;
        Ok(match self.stored_column()? {
            FieldColumn::Single(values) if base != 0.0 => {
                values.into_par_iter().map(|value| base + f64::from(value)).collect()
            }
            other => other.into_f64(),
        })
    }

    /// Fails if a value is NaN or infinite. The error names the first such node.
    pub fn check_finite(&self) -> Result<(), HeatError> {
        let (min, max) = self.range()?;
        if min.is_finite() && max.is_finite() {
            return Ok(());
        }
        let HeatField { grid, precision, .. } = self.field;
        match self.stored_column()?.first_not_finite() {
            Some((index, value)) => Err(HeatError::not_finite("temperature", grid, index, value, *precision)),
            None => Ok(()),
        }
    }
}

/// Returns a field with stored values on all ranks of a team.
fn restored<R: Scalar>(
    team: &Team,
    problem: &HeatProblem,
    column: FieldColumn,
    setup: Option<&HeatDeviceSetup>,
) -> Result<Box<dyn LedField<HeatPhysics>>, HeatError> {
    let values = R::from_column(column)
        .map_err(|found| HeatError::StoredPrecision { found, expected: R::PRECISION })?;
    let device = setup.map(|setup| (&setup.device, Some(setup.strategy)));
    Ok(Box::new(TeamHeat::<R>::start(team, Plate::new(problem), values, device)?))
}

/// Rounds the differences of an initial state from `base`, and sets the values of fixed nodes.
fn rounded<R: Scalar>(problem: &HeatProblem, initial: &[f64], base: f64) -> Vec<R> {
    let mut state: Vec<R> = initial.par_iter().map(|&u| R::from_f64(u - base)).collect();
    for (index, value) in problem.boundaries().fixed_nodes(problem.grid()) {
        state[index] = R::from_f64(value - base);
    }
    state
}
