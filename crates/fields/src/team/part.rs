//! The slab of one rank, on the host or on a device.

use orrery_cluster::{LinkError, Team};
use orrery_device::{Device, DeviceError};

use super::{DeviceSlab, LinkedSlab, Neighbours};

/// A device, and the strategy that computes steps on it.
#[derive(Clone, Debug)]
pub struct DeviceSetup<S> {
    /// The device.
    pub device: Device,
    /// Launch parameters. They do not affect results.
    pub strategy: S,
}

impl<S: Copy> DeviceSetup<S> {
    /// Returns the setup of a device with a strategy or, without one, with the default.
    pub(crate) fn of(device: Option<(&Device, Option<S>)>, default: impl Fn(&Device) -> S) -> Option<Self> {
        let (device, strategy) = device?;
        Some(Self { device: device.clone(), strategy: strategy.unwrap_or_else(|| default(device)) })
    }

    /// Returns the device for the slab of this rank. A rank alone keeps the queue of its handle.
    pub(crate) fn rank_device(&self, team: &Team, neighbours: &Neighbours) -> Result<Device, DeviceError> {
        match neighbours.is_alone() {
            true => Ok(self.device.clone()),
            false => self.device.for_rank(team.transport().local_rank()),
        }
    }
}

/// A slab with its neighbours.
#[derive(Debug)]
pub(crate) enum SlabPart<H, D: DeviceSlab> {
    /// In host memory.
    Host(Box<H>, Neighbours),
    /// On a device.
    Device(Box<LinkedSlab<D>>),
}

impl<H, D: DeviceSlab> SlabPart<H, D> {
    /// Reads the slab where it is.
    pub(crate) fn read<T>(
        &self,
        on_host: impl FnOnce(&H) -> T,
        on_device: impl FnOnce(&D) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        match self {
            Self::Host(slab, _) => Ok(on_host(slab)),
            Self::Device(linked) => on_device(linked.slab()),
        }
    }

    /// Reads the slab where it is, after the exchange of its last pass. All ranks must call it.
    pub(crate) fn read_completed<T>(
        &mut self,
        on_host: impl FnOnce(&H) -> T,
        on_device: impl FnOnce(&D) -> Result<T, DeviceError>,
    ) -> Result<T, LinkError> {
        if let Self::Device(linked) = self {
            linked.completed()?;
        }
        Ok(self.read(on_host, on_device)?)
    }

    /// Waits until the steps on a device are complete.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        self.read(|_| (), |slab| slab.device().queue().finish())
    }

    /// Returns the device, `None` on the host.
    pub(crate) fn device(&self) -> Option<&Device> {
        match self {
            Self::Host(..) => None,
            Self::Device(linked) => Some(linked.slab().device()),
        }
    }
}
