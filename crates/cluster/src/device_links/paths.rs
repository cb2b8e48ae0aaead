//! Choice of the path between each pair of ranks.

use bytemuck::Pod;
use orrery_device::{Backend, Device, Element, SharedName};
use serde::Serialize;

use super::{DeviceLinks, LinkError};
use crate::error::ClusterError;
use crate::tag::Tag;
use crate::transport::Transport;

/// Path of messages from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePath {
    /// Messages from and to ordinary memory, for ranks on CPUs.
    Messages,
    /// Copies from device to device, within a process.
    Direct,
    /// Messages from and to the memory of CUDA devices.
    OnDevice,
    /// Page-locked memory that two processes share.
    Shared,
    /// Messages from and to page-locked memory.
    Staged,
}

impl MessagePath {
    /// All paths.
    pub const ALL: [Self; 5] = [Self::Messages, Self::Direct, Self::OnDevice, Self::Shared, Self::Staged];

    /// Returns a description for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Direct => "from device to device",
            Self::OnDevice => "messages in device memory",
            Self::Shared => "shared page-locked memory",
            Self::Staged => "messages through page-locked memory",
        }
    }

    /// Returns the paths of all ranks, each once. `own` are those of this rank. All ranks must call
    /// it.
    pub fn of_all_ranks(transport: &Transport, own: &[Self]) -> Result<Vec<Self>, ClusterError> {
        let used = Self::ALL.map(|path| u8::from(own.contains(&path)));
        let used = transport.all_reduce(&used, u8::max)?;
        let used_paths = Self::ALL.into_iter().zip(used).filter(|(_, used)| *used > 0);
        Ok(used_paths.map(|(path, _)| path).collect())
    }
}

/// Paths that a rank may use. A pair of ranks uses those that both may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllowedPaths {
    /// Copies from device to device, between threads.
    pub direct: bool,
    /// Shared page-locked memory.
    pub shared: bool,
}

impl AllowedPaths {
    /// Returns the paths for a transport. Threads need no shared memory, but tests use it between
    /// them.
    pub fn for_transport(transport: &Transport) -> Self {
        Self { direct: !transport.is_mpi(), shared: transport.is_mpi() }
    }
}

impl<T: Element + Pod> DeviceLinks<T> {
    /// Finds the threads whose memory this rank can copy from.
    pub(super) fn find_direct(&mut self, ranks: &[usize], is_allowed: bool) -> Result<(), LinkError> {
        let offer = || is_allowed.then(|| self.device.clone());
        ranks.iter().try_for_each(|rank| self.transport.send_value(*rank, Tag::LINKS, offer()))?;
        for &rank in ranks {
            let other: Option<Device> = self.transport.receive_value(rank, Tag::LINKS)?;
            let is_direct = is_allowed && other.is_some_and(|other| self.device.shares_memory_with(&other));
            self.paths[rank] = is_direct.then_some(MessagePath::Direct);
        }
        Ok(())
    }

    /// Finds the paths to ranks of other processes. Both ends send an offer, try that of the other
    /// one, and report whether it works.
    pub(super) fn find_others(
        &mut self,
        ranks: &[usize],
        offers_shared: bool,
        len: usize,
    ) -> Result<(), LinkError> {
        let is_cuda = self.device.properties().backend == Backend::Cuda;
        let takes_device_memory = is_cuda && self.transport.is_cuda_aware();
        // A CUDA-aware library can copy between devices without the host.
        let has_shared = offers_shared && !takes_device_memory && !ranks.is_empty();
        let memory = if has_shared { self.shared.offer(len) } else { None };
        let offer = Offer { takes_device_memory, memory }.to_bytes();
        let offers = self.exchange_bytes(ranks, &vec![offer; ranks.len()])?;
        let mut answers = Vec::new();
        for (&rank, offer) in ranks.iter().zip(offers) {
            let offer = Offer::from_bytes(&offer);
            let is_shared = has_shared && offer.memory.is_some_and(|name| self.shared.can_open(&name));
            self.paths[rank] = if takes_device_memory && offer.takes_device_memory {
                Some(MessagePath::OnDevice)
            } else {
                is_shared.then_some(MessagePath::Shared)
            };
            answers.push(vec![u8::from(is_shared)]);
        }
        for (&rank, answer) in ranks.iter().zip(self.exchange_bytes(ranks, &answers)?) {
            let path = &mut self.paths[rank];
            if path.is_none() || *path == Some(MessagePath::Shared) && answer != [1] {
                *path = Some(MessagePath::Staged);
            }
        }
        Ok(())
    }

    /// Sends a message to each rank, and returns theirs.
    fn exchange_bytes(&self, ranks: &[usize], messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ClusterError> {
        let send = |(&rank, message): (&usize, &Vec<u8>)| {
            self.transport.start_send(rank, Tag::LINKS, message.clone())
        };
        let sends = ranks.iter().zip(messages).map(send).collect::<Result<Vec<_>, _>>()?;
        let received = ranks.iter().map(|&rank| self.transport.receive(rank, Tag::LINKS)).collect();
        sends.into_iter().try_for_each(|send| send.wait())?;
        received
    }
}

/// Paths of a rank besides messages through page-locked memory.
#[derive(Debug, PartialEq)]
pub(super) struct Offer {
    pub(super) takes_device_memory: bool,
    pub(super) memory: Option<SharedName>,
}

impl Offer {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let name = self.memory.as_ref().map_or(String::new(), SharedName::to_text);
        format!("{}\n{name}", self.takes_device_memory).into_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (takes_device_memory, name) = text.split_once('\n').unwrap_or_default();
        Self { takes_device_memory: takes_device_memory == "true", memory: SharedName::from_text(name) }
    }
}
