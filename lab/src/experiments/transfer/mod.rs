//! Transfers between host and device.
//!
//! A transfer of B bytes takes t = t₀ + B / W: a latency, and the time at the bandwidth W of the
//! link. Small transfers are limited by t₀, large ones by W. Both depend on the memory of the host.
//! The device reads and writes page-locked (pinned) memory by itself. Ordinary (pageable) memory is
//! copied by the CPU through a pinned buffer of the driver.
//!
//! [`TransferArrays`] copies one array in each direction, [`PieceCopies`] one array in many pieces,
//! [`segments`] overlaps copies with kernels, [`visible`] uses memory that both sides access, and
//! [`calls`] shows which calls of the host wait for the device. All contents are patterns that
//! depend on index and seed, and are checked after copies.

pub mod calls;
pub mod clock;
pub mod segments;
pub mod selftest;
pub mod visible;

use orrery_device::{Buffer, Device, DeviceError, Pinned, Queue};
use rayon::prelude::*;

/// Numbers per task of the thread pool.
const CHUNK_LEN: usize = 1 << 16;

/// Memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMemory {
    /// Ordinary memory.
    Pageable,
    /// Page-locked memory.
    Pinned,
}

/// Direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the device.
    ToDevice,
    /// From the device to the host.
    FromDevice,
}

/// A kind of transfer: memory of the host and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferKind {
    /// Memory of the host.
    pub memory: HostMemory,
    /// Direction.
    pub direction: Direction,
}

impl TransferKind {
    /// All kinds, the slowest first.
    pub const ALL: [Self; 4] = [
        Self { memory: HostMemory::Pageable, direction: Direction::ToDevice },
        Self { memory: HostMemory::Pageable, direction: Direction::FromDevice },
        Self { memory: HostMemory::Pinned, direction: Direction::ToDevice },
        Self { memory: HostMemory::Pinned, direction: Direction::FromDevice },
    ];

    /// Returns the name, for example `pinned to device`.
    pub fn name(self) -> &'static str {
        match (self.memory, self.direction) {
            (HostMemory::Pageable, Direction::ToDevice) => "pageable to device",
            (HostMemory::Pageable, Direction::FromDevice) => "pageable from device",
            (HostMemory::Pinned, Direction::ToDevice) => "pinned to device",
            (HostMemory::Pinned, Direction::FromDevice) => "pinned from device",
        }
    }
}

/// Returns the number at an index of the pattern with this seed. Neighbours and seeds differ.
fn pattern(seed: u32, index: usize) -> u32 {
    (index as u32).wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(0x9e37_79b9)
}

/// Writes the pattern of a seed.
pub fn fill_pattern(seed: u32, to: &mut [u32]) {
    to.par_chunks_mut(CHUNK_LEN).enumerate().for_each(|(chunk, to)| {
        for (i, to) in to.iter_mut().enumerate() {
            *to = pattern(seed, chunk * CHUNK_LEN + i);
        }
    });
}

/// Checks that all numbers are the pattern of a seed. The error names the first that is not.
pub fn check_pattern(seed: u32, found: &[u32]) -> Result<(), String> {
    let first_wrong = found.par_chunks(CHUNK_LEN).enumerate().find_map_first(|(chunk, found)| {
        let first = chunk * CHUNK_LEN;
        (0..found.len()).find(|&i| found[i] != pattern(seed, first + i)).map(|i| first + i)
    });
    first_wrong.map_or(Ok(()), |i| {
        let expected = pattern(seed, i);
        Err(format!("number {i} of {}: found {}, expected {expected}", found.len(), found[i]))
    })
}

/// Arrays of 32-bit numbers for transfers, each of the same length: one of each kind of memory.
#[derive(Debug)]
pub struct TransferArrays {
    pageable: Vec<u32>,
    /// Source of pinned copies to the device.
    pinned_source: Pinned<u32>,
    /// Target of pinned copies from the device.
    pinned_target: Pinned<u32>,
    /// Target of copies to the device.
    device_target: Buffer<u32>,
    /// Source of copies from the device.
    device_source: Buffer<u32>,
}

impl TransferArrays {
    /// Allocates arrays of `len` numbers.
    pub fn new(device: &Device, len: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            pageable: vec![0; len],
            pinned_source: device.pinned(len)?,
            pinned_target: device.pinned(len)?,
            device_target: device.zeros(len)?,
            device_source: device.zeros(len)?,
        })
    }

    /// Writes the pattern of `seed` to the first `len` numbers of the source, and zeros to the
    /// target.
    pub fn prepare(
        &mut self,
        queue: &Queue,
        kind: TransferKind,
        seed: u32,
        len: usize,
    ) -> Result<(), DeviceError> {
        match kind.direction {
            Direction::ToDevice => {
                fill_pattern(seed, &mut self.host_source(kind.memory)[..len]);
                let zeros = &mut self.pinned_target[..len];
                zeros.fill(0);
                queue.write(self.device_target.range(..len)?, zeros)
            }
            Direction::FromDevice => {
                fill_pattern(seed, &mut self.pinned_source[..len]);
                queue.write(self.device_source.range(..len)?, &self.pinned_source[..len])?;
                self.host_target(kind.memory)[..len].fill(0);
                Ok(())
            }
        }
    }

    /// Copies the first `len` numbers and waits for it.
    pub fn copy(&mut self, queue: &Queue, kind: TransferKind, len: usize) -> Result<(), DeviceError> {
        match kind.direction {
            Direction::ToDevice => {
                let from: &[u32] = match kind.memory {
                    HostMemory::Pageable => &self.pageable,
                    HostMemory::Pinned => &self.pinned_source,
                };
                queue.write(self.device_target.range(..len)?, &from[..len])
            }
            Direction::FromDevice => {
                let to: &mut [u32] = match kind.memory {
                    HostMemory::Pageable => &mut self.pageable,
                    HostMemory::Pinned => &mut self.pinned_target,
                };
                queue.read(self.device_source.range(..len)?, &mut to[..len])
            }
        }
    }

    /// Checks that the first `len` numbers of the target are the pattern of `seed`. The inner error
    /// says which number is wrong.
    pub fn check(
        &mut self,
        queue: &Queue,
        kind: TransferKind,
        seed: u32,
        len: usize,
    ) -> Result<Result<(), String>, DeviceError> {
        if kind.direction == Direction::ToDevice {
            queue.read(self.device_target.range(..len)?, &mut self.pinned_target[..len])?;
            return Ok(check_pattern(seed, &self.pinned_target[..len]));
        }
        Ok(check_pattern(seed, &self.host_target(kind.memory)[..len]))
    }

    /// Copies all pinned numbers in both directions, each in its queue, and waits for both. With
    /// the same queue twice, one copy runs after the other.
    pub fn copy_both(&mut self, [up, down]: [&Queue; 2]) -> Result<(), DeviceError> {
        up.write_async(&self.device_target, &mut self.pinned_source)?;
        down.read_async(&self.device_source, &mut self.pinned_target)?;
        up.finish()?;
        down.finish()
    }

    /// Queues a copy of all pinned numbers to the device and does not wait.
    pub fn start_copy_to_device(&mut self, queue: &Queue) -> Result<(), DeviceError> {
        queue.write_async(&self.device_target, &mut self.pinned_source).map(drop)
    }

    fn host_source(&mut self, memory: HostMemory) -> &mut [u32] {
        match memory {
            HostMemory::Pageable => &mut self.pageable,
            HostMemory::Pinned => &mut self.pinned_source,
        }
    }

    fn host_target(&mut self, memory: HostMemory) -> &mut [u32] {
        match memory {
            HostMemory::Pageable => &mut self.pageable,
            HostMemory::Pinned => &mut self.pinned_target,
        }
    }
}

/// Copies of one array to the device in pieces of the same length.
#[derive(Debug)]
pub struct PieceCopies {
    piece_len: usize,
    pageable: Vec<u32>,
    pinned: Vec<Pinned<u32>>,
    target: Buffer<u32>,
}

impl PieceCopies {
    /// Allocates `len` numbers with the pattern of `seed`, in pieces of `piece_len`.
    pub fn new(device: &Device, len: usize, piece_len: usize, seed: u32) -> Result<Self, DeviceError> {
        let mut pageable = vec![0; len];
        fill_pattern(seed, &mut pageable);
        let mut pinned = device.pinned(len)?;
        pinned.copy_from_slice(&pageable);
        let (pinned, target) = (pinned.into_pieces(piece_len), device.zeros(len)?);
        Ok(Self { piece_len, pageable, pinned, target })
    }

    /// Copies all pieces, one call for each, and waits. Calls of pageable memory wait for their
    /// copy, calls of pinned memory do not.
    pub fn copy(&mut self, queue: &Queue, memory: HostMemory) -> Result<(), DeviceError> {
        let mut first = 0;
        match memory {
            HostMemory::Pageable => {
                for piece in self.pageable.chunks(self.piece_len) {
                    queue.write(self.target.range(first..first + piece.len())?, piece)?;
                    first += piece.len();
                }
                Ok(())
            }
            HostMemory::Pinned => {
                for piece in &mut self.pinned {
                    queue.write_async(self.target.range(first..first + piece.len())?, &mut *piece)?;
                    first += piece.len();
                }
                queue.finish()
            }
        }
    }

    /// Returns the numbers on the device.
    pub fn received(&self) -> Result<Vec<u32>, DeviceError> {
        self.target.to_vec()
    }

    /// Sets the numbers on the device to 0.
    pub fn clear_target(&self, queue: &Queue) -> Result<(), DeviceError> {
        queue.write(&self.target, &vec![0; self.target.len()])
    }
}
