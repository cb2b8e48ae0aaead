//! The slab of one rank, on the host or on a device.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orrery_cluster::Team;
use orrery_device::{Device, DeviceError};
use orrery_model::grid::{PixelMeans, PixelWeights};

use super::SlabDivision;
use crate::Scalar;
use crate::pixels::pixel_means_of;
use crate::team::{BorderLinks, Neighbours};
use crate::wave::cpu::WaveCpuStrategy;
use crate::wave::device::DeviceWave;
use crate::wave::{GridPlane, HostWave, Medium, StoredWave, WaveDeviceSetup, WaveError, WaveState};

/// A slab with its neighbours. Methods without documentation are those of [`HostWave`] and
/// [`DeviceWave`].
#[derive(Debug)]
pub(super) enum WavePart<R: Scalar> {
    Host(Box<HostWave<R>>, Neighbours),
    Device(Box<DevicePart<R>>),
    /// A field on one device, which has no neighbours.
    WholeDevice(Box<DeviceWave<R>>),
}

/// A slab on a device.
#[derive(Debug)]
pub(super) struct DevicePart<R: Scalar> {
    device: Device,
    neighbours: Neighbours,
    /// Locked because an operation that only reads may have to complete the last step.
    linked: Mutex<LinkedWave<R>>,
}

#[derive(Debug)]
struct LinkedWave<R: Scalar> {
    wave: DeviceWave<R>,
    links: BorderLinks<R>,
}

impl<R: Scalar> DevicePart<R> {
    fn lock(&self) -> MutexGuard<'_, LinkedWave<R>> {
        self.linked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `read` after the ghost slices and the samples of the last step are complete. All ranks
    /// must call it.
    fn read_complete<T>(
        &self,
        read: impl FnOnce(&DeviceWave<R>) -> Result<T, DeviceError>,
    ) -> Result<T, WaveError> {
        let LinkedWave { wave, links } = &mut *self.lock();
        wave.complete_step(links)?;
        Ok(read(wave)?)
    }
}

impl<R: Scalar> LinkedWave<R> {
    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError> {
        self.wave.complete_step(&mut self.links)?;
        Ok(self.wave.step_ahead(fraction)?)
    }

    fn end_ahead(&mut self) -> Result<(), WaveError> {
        self.wave.end_ahead()?;
        Ok(self.wave.exchange_ghosts(&mut self.links)?)
    }
}

impl<R: Scalar> WavePart<R> {
    /// Copies the slab of this rank, and the ghost slices from its neighbours. All ranks must call
    /// it.
    pub(super) fn new(
        team: &Team,
        division: &SlabDivision,
        medium: Medium<R>,
        state: &WaveState<R>,
        setup: Option<&WaveDeviceSetup>,
    ) -> Result<Self, WaveError> {
        let (rank, neighbours) = (team.transport().rank(), Neighbours::new(team, false));
        let (owned, receivers) = (division.slabs[rank].clone(), division.recorded(rank));
        let Some(WaveDeviceSetup { device, strategy }) = setup else {
            let strategy = WaveCpuStrategy::resolve();
            let mut wave = HostWave::of_slab(medium, state, strategy, owned, receivers);
            wave.exchange_ghosts(&neighbours)?;
            return Ok(Self::Host(Box::new(wave), neighbours));
        };
        // A rank alone keeps the queue of its handle.
        let rank_device = || device.for_rank(team.transport().local_rank());
        let device = &if neighbours.is_alone() { device.clone() } else { rank_device()? };
        let mut wave = DeviceWave::of_slab(device, medium, state, *strategy, owned, &receivers)?;
        if neighbours.is_alone() {
            return Ok(Self::WholeDevice(Box::new(wave)));
        }
        let mut links = wave.connect(&neighbours)?;
        wave.exchange_ghosts(&mut links)?;
        let linked = Mutex::new(LinkedWave { wave, links });
        Ok(Self::Device(Box::new(DevicePart { device: device.clone(), neighbours, linked })))
    }

    pub(super) fn advance(&mut self, steps: u64) -> Result<(), WaveError> {
        match self {
            Self::Host(wave, neighbours) if neighbours.is_alone() => wave.advance(steps),
            Self::Host(wave, neighbours) => wave.advance_with(neighbours, steps)?,
            Self::Device(part) => {
                let LinkedWave { wave, links } = &mut *part.lock();
                wave.advance_with(&part.neighbours, links, steps)?;
            }
            Self::WholeDevice(wave) => wave.advance(steps)?,
        }
        Ok(())
    }

    pub(super) fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError> {
        match self {
            Self::Host(wave, _) => wave.step_ahead(fraction),
            Self::Device(part) => part.lock().step_ahead(fraction)?,
            Self::WholeDevice(wave) => wave.step_ahead(fraction)?,
        }
        Ok(())
    }

    /// Replaces the state by the result of the last look ahead, with its ghost slices.
    pub(super) fn end_ahead(&mut self) -> Result<(), WaveError> {
        match self {
            Self::Host(wave, neighbours) => {
                wave.end_ahead();
                wave.exchange_ghosts(neighbours)?;
            }
            Self::Device(part) => part.lock().end_ahead()?,
            Self::WholeDevice(wave) => wave.end_ahead()?,
        }
        Ok(())
    }

    pub(super) fn step(&self) -> u64 {
        match self {
            Self::Host(wave, _) => wave.step(),
            Self::Device(part) => part.lock().wave.step(),
            Self::WholeDevice(wave) => wave.step(),
        }
    }

    /// Waits until the steps on a device are complete.
    pub(super) fn wait(&self) -> Result<(), WaveError> {
        match self {
            Self::Host(..) => Ok(()),
            Self::Device(part) => Ok(part.lock().wave.queue().finish()?),
            Self::WholeDevice(wave) => Ok(wave.queue().finish()?),
        }
    }

    /// Returns the terms of the energy in their order, without their factor.
    pub(super) fn energies(&self) -> Result<Vec<f64>, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.row_energies()),
            Self::Device(part) => part.read_complete(DeviceWave::part_energies),
            Self::WholeDevice(wave) => Ok(wave.part_energies()?),
        }
    }

    pub(super) fn largest(&self, field: StoredWave) -> Result<f64, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.largest(field)),
            Self::Device(part) => Ok(part.lock().wave.largest(field)?),
            Self::WholeDevice(wave) => Ok(wave.largest(field)?),
        }
    }

    pub(super) fn values(&self, field: StoredWave) -> Result<Vec<R>, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.values(field)),
            Self::Device(part) => Ok(part.lock().wave.values(field)?),
            Self::WholeDevice(wave) => Ok(wave.values(field)?),
        }
    }

    pub(super) fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<Vec<R>, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.plane(field, plane)),
            Self::Device(part) => Ok(part.lock().wave.plane(field, plane)?),
            Self::WholeDevice(wave) => Ok(wave.plane(field, plane)?),
        }
    }

    /// Returns some rows of the part of a plane in the slab.
    pub(super) fn plane_rows(
        &self,
        field: StoredWave,
        plane: GridPlane,
        rows: Range<usize>,
    ) -> Result<Vec<R>, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.plane_rows(field, plane, rows)),
            Self::Device(part) => Ok(part.lock().wave.plane_rows(field, plane, rows)?),
            Self::WholeDevice(wave) => Ok(wave.plane_rows(field, plane, rows)?),
        }
    }

    /// Returns the means of the part of a plane in the slab. `weights` are those of its nodes.
    pub(super) fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(pixel_means_of(&wave.plane(field, plane), weights)),
            Self::Device(part) => Ok(part.lock().wave.pixel_means(field, plane, weights)?),
            Self::WholeDevice(wave) => Ok(wave.pixel_means(field, plane, weights)?),
        }
    }

    pub(super) fn samples(&self) -> Result<Vec<R>, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.samples().to_vec()),
            Self::Device(part) => part.read_complete(DeviceWave::samples),
            Self::WholeDevice(wave) => Ok(wave.samples()?),
        }
    }

    pub(super) fn state(&self) -> Result<WaveState<R>, WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.state()),
            Self::Device(part) => part.read_complete(DeviceWave::state),
            Self::WholeDevice(wave) => Ok(wave.state()?),
        }
    }

    /// Returns the medium with v and the state of a field on one rank.
    pub(super) fn into_parts(self) -> Result<(Medium<R>, WaveState<R>), WaveError> {
        match self {
            Self::Host(wave, _) => Ok(wave.into_parts()),
            Self::WholeDevice(wave) => {
                let state = wave.state()?;
                Ok((wave.into_medium()?, state))
            }
            Self::Device(_) => panic!("the part of a rank is not the whole field"),
        }
    }

    pub(super) fn device(&self) -> Option<&Device> {
        match self {
            Self::Host(..) => None,
            Self::Device(part) => Some(&part.device),
            Self::WholeDevice(wave) => Some(wave.device()),
        }
    }

    /// Returns the name of the strategy for reports.
    pub(super) fn strategy_name(&self) -> String {
        match self {
            Self::Host(wave, _) => wave.strategy().name(),
            Self::Device(part) => part.lock().wave.strategy().name(),
            Self::WholeDevice(wave) => wave.strategy().name(),
        }
    }
}
