//! The slab of one rank, on the host or on a device.

use std::ops::Range;

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_model::grid::{PixelMeans, PixelWeights};

use crate::Scalar;
use crate::heat::cpu::CpuStrategy;
use crate::heat::device::{DeviceHeat, StoredField};
use crate::heat::{FieldMeasures, HeatDeviceSetup, HeatError, HostHeat, Plate};
use crate::pixels::pixel_means_of;
use crate::team::{BorderLinks, Neighbours};

/// A slab with its neighbours. Methods without documentation are those of [`HostHeat`] and
/// [`DeviceHeat`].
#[derive(Debug)]
pub(super) enum HeatPart<R: Scalar> {
    Host(HostHeat<R>, Neighbours),
    Device(Box<DeviceHeat<R>>, Neighbours, BorderLinks<R>),
    /// A plate on one device, which has no neighbours.
    WholeDevice(Box<DeviceHeat<R>>),
}

/// Adds the measures of the rows of a slab to those of earlier rows.
pub(super) type AddMeasures<'a> = Box<dyn Fn(FieldMeasures) -> FieldMeasures + 'a>;

impl<R: Scalar> HeatPart<R> {
    /// Copies the rows `owned`, whose values are given, and the ghost rows from the neighbours. All
    /// ranks must call it.
    pub(super) fn new(
        team: &Team,
        plate: Plate<R>,
        values: &[R],
        owned: Range<usize>,
        setup: Option<&HeatDeviceSetup>,
        steps_per_pass: usize,
    ) -> Result<Self, HeatError> {
        let neighbours = Neighbours::new(team, plate.boundaries.is_periodic_in_y());
        let Some(HeatDeviceSetup { device, strategy }) = setup else {
            let strategy = CpuStrategy { steps_per_pass, ..CpuStrategy::resolve(&plate) };
            let mut heat = HostHeat::of_rows(plate, values, strategy, owned, &neighbours);
            heat.exchange_ghosts(&neighbours)?;
            return Ok(Self::Host(heat, neighbours));
        };
        let mut strategy = *strategy;
        strategy.steps_per_pass = steps_per_pass as u32;
        let [low, _, high] = neighbours.split(owned.len(), steps_per_pass);
        let ghosts = [low.len(), high.len()];
        // A rank alone keeps the queue of its handle.
        let rank_device = || device.for_rank(team.transport().local_rank());
        let device = &if neighbours.is_alone() { device.clone() } else { rank_device()? };
        let mut heat = Box::new(DeviceHeat::of_rows(device, plate, values, strategy, owned, ghosts)?);
        if neighbours.is_alone() {
            return Ok(Self::WholeDevice(heat));
        }
        let mut links = heat.connect(&neighbours)?;
        heat.exchange_ghosts(&mut links)?;
        Ok(Self::Device(heat, neighbours, links))
    }

    pub(super) fn advance(&mut self, dt: f64, steps: u64) -> Result<(), HeatError> {
        match self {
            Self::Host(heat, neighbours) if neighbours.is_alone() => heat.advance(dt, steps),
            Self::Host(heat, neighbours) => heat.advance_with(neighbours, dt, steps)?,
            Self::Device(heat, neighbours, links) => heat.advance_with(neighbours, links, dt, steps)?,
            Self::WholeDevice(heat) => heat.advance(dt, steps)?,
        }
        Ok(())
    }

    pub(super) fn step_ahead(&mut self, dt: f64) -> Result<(), HeatError> {
        match self {
            Self::Host(heat, _) => heat.step_ahead(dt),
            Self::Device(heat, _, links) => {
                heat.complete_pass(links)?;
                heat.step_ahead(dt)?;
            }
            Self::WholeDevice(heat) => heat.step_ahead(dt)?,
        }
        Ok(())
    }

    /// Waits until the steps on a device are complete.
    pub(super) fn wait(&self) -> Result<(), HeatError> {
        match self {
            Self::Host(..) => Ok(()),
            Self::Device(heat, ..) | Self::WholeDevice(heat) => Ok(heat.queue().finish()?),
        }
    }

    /// Measures all rows of the slab.
    pub(super) fn measures(&self, field: StoredField) -> Result<AddMeasures<'_>, HeatError> {
        match self {
            Self::Host(heat, _) => {
                let rows = heat.row_measures(field);
                Ok(Box::new(move |earlier| heat.added_measures(earlier, &rows)))
            }
            Self::Device(heat, ..) | Self::WholeDevice(heat) => {
                let rows = heat.row_measures(field)?;
                Ok(Box::new(move |earlier| rows.added_to(earlier, heat.plate(), heat.first_row())))
            }
        }
    }

    pub(super) fn values(&self, field: StoredField) -> Result<Vec<R>, HeatError> {
        match self {
            Self::Host(heat, _) => Ok(heat.values(field).to_vec()),
            Self::Device(heat, ..) | Self::WholeDevice(heat) => Ok(heat.values(field)?),
        }
    }

    /// Returns some rows, counted from the first one of the slab.
    pub(super) fn rows(&self, field: StoredField, rows: Range<usize>) -> Result<Vec<R>, HeatError> {
        match self {
            Self::Host(heat, _) => {
                let nx = heat.plate().grid.nx;
                Ok(heat.values(field)[rows.start * nx..rows.end * nx].to_vec())
            }
            Self::Device(heat, ..) | Self::WholeDevice(heat) => Ok(heat.rows(field, rows)?),
        }
    }

    /// Returns columns 0, 1, nx - 2 and nx - 1, each with one value per row of the slab.
    pub(super) fn outer_columns(&self, field: StoredField) -> Result<Vec<R>, HeatError> {
        match self {
            Self::Host(heat, _) => {
                let (nx, values) = (heat.plate().grid.nx, heat.values(field));
                let column = |i: usize| values.iter().skip(i).step_by(nx).copied();
                Ok([0, 1, nx - 2, nx - 1].into_iter().flat_map(column).collect())
            }
            Self::Device(heat, ..) | Self::WholeDevice(heat) => Ok(heat.outer_columns(field)?),
        }
    }

    /// Returns the means of the rows of the slab. `weights` are those of their nodes.
    pub(super) fn pixel_means(
        &self,
        field: StoredField,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, HeatError> {
        match self {
            Self::Host(heat, _) => Ok(pixel_means_of(heat.values(field), weights)),
            Self::Device(heat, ..) | Self::WholeDevice(heat) => Ok(heat.pixel_means(field, weights)?),
        }
    }

    pub(super) fn plate(&self) -> &Plate<R> {
        match self {
            Self::Host(heat, _) => heat.plate(),
            Self::Device(heat, ..) | Self::WholeDevice(heat) => heat.plate(),
        }
    }

    /// Returns the plate and the values of the slab.
    pub(super) fn into_parts(self) -> Result<(Plate<R>, Vec<R>), HeatError> {
        match self {
            Self::Host(heat, _) => Ok(heat.into_parts()),
            Self::Device(heat, ..) | Self::WholeDevice(heat) => {
                let values = heat.values(StoredField::State)?;
                Ok((heat.into_plate(), values))
            }
        }
    }

    pub(super) fn device(&self) -> Option<&Device> {
        match self {
            Self::Host(..) => None,
            Self::Device(heat, ..) | Self::WholeDevice(heat) => Some(heat.device()),
        }
    }

    /// Returns the name of the strategy for reports.
    pub(super) fn strategy_name(&self) -> String {
        match self {
            Self::Host(heat, _) => heat.strategy().name(),
            Self::Device(heat, ..) | Self::WholeDevice(heat) => heat.strategy().name(),
        }
    }

    pub(super) fn steps_per_pass(&self) -> u64 {
        match self {
            Self::Host(heat, _) => heat.strategy().steps_per_pass as u64,
            Self::Device(heat, ..) | Self::WholeDevice(heat) => u64::from(heat.strategy().steps_per_pass),
        }
    }
}
