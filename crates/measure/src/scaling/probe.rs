//! Times of messages without computation.

use std::time::Instant;

use orrery_cluster::{MessagePath, Tag, Team, Transport};
use orrery_device::Device;
use orrery_fields::time_border_exchange;
use orrery_gravity::bodies::time_force_exchange;
use serde::Serialize;

use super::model::{MessageLink, Messages, StraightLine};
use crate::MeasureError;

/// Seconds of a series of messages.
const SERIES_SECS: f64 = 0.03;
/// Series of messages, of which the fastest counts.
const SERIES: usize = 3;
/// Messages of the first series, and most messages of a series.
const FIRST: usize = 4;
const MOST: usize = 4000;
const PING: Tag = Tag::new(201);

/// Times of exchanges, all ranks at once: between neighbours, or of forces with all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkTimes {
    /// Number of ranks.
    pub ranks: usize,
    /// Paths of the longest messages, each once.
    pub paths: Vec<MessagePath>,
    /// Bytes that a rank sends per exchange, with two neighbours if there are any, and seconds of
    /// the exchange.
    pub times: Vec<(f64, f64)>,
    /// Latency and bandwidth that fit these times.
    pub link: MessageLink,
    /// Seconds of communication and of the work at the borders of parts, over the sent bytes, from
    /// steps of a fluid on ranks that compute together.
    pub of_steps: Option<StraightLine>,
}

/// Time of a message between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PingPong {
    /// Length of the message.
    pub bytes: usize,
    /// Seconds of one direction.
    pub secs: f64,
}

/// Measures exchanges of up to `bytes` bytes with each neighbour on the paths of fields, on a
/// device if there is one. All ranks of the transport must call it.
pub(super) fn exchange_times(
    transport: &Transport,
    device: Option<&Device>,
    bytes: f64,
) -> Result<LinkTimes, MeasureError> {
    let (team, ranks) = (Team::new(transport), transport.size());
    let longest = (bytes / 4.0).ceil().max(64.0) as usize;
    let (mut times, mut paths) = (Vec::new(), Vec::new());
    for values in [1, longest / 64, longest / 8, longest] {
        let secs = fastest_series(|exchanges| {
            let time = time_border_exchange(&team, device, values, exchanges)?;
            paths = time.paths;
            Ok(time.secs)
        })?;
        times.push((Messages::neighbours(ranks) * 4.0 * values as f64, secs));
    }
    Ok(LinkTimes { ranks, paths, link: MessageLink::fit(&times), times, of_steps: None })
}

/// Measures exchanges of the forces on up to `bodies` bodies, on a device if there is one. All
/// ranks of the transport must call it.
pub(super) fn force_exchange_times(
    transport: &Transport,
    device: Option<&Device>,
    messages: &Messages,
    bodies: usize,
) -> Result<LinkTimes, MeasureError> {
    let ranks = transport.size();
    let (mut times, mut paths) = (Vec::new(), Vec::new());
    for bodies in [bodies / 64, bodies / 16, bodies / 4, bodies] {
        let secs = fastest_series(|exchanges| {
            let time = time_force_exchange(transport, device, bodies, exchanges)?;
            paths = time.paths;
            Ok(time.secs)
        })?;
        times.push((messages.sent_bytes(bodies as f64, ranks), secs));
    }
    Ok(LinkTimes { ranks, paths, link: MessageLink::fit(&times), times, of_steps: None })
}

/// Measures copies of up to `bytes` bytes between a device and page-locked memory of the host: the
/// mean of both directions.
pub(super) fn staging_link(device: &Device, bytes: f64) -> Result<MessageLink, MeasureError> {
    let longest = (bytes / 4.0).ceil().max(64.0) as usize;
    let mut times = Vec::new();
    for values in [16, longest / 8, longest] {
        let buffer = device.zeros::<f32>(values)?;
        let mut host = device.pinned::<f32>(values)?;
        let queue = device.new_queue()?;
        let secs = fastest_series(|copies| {
            let start = Instant::now();
            for _ in 0..copies {
                queue.read_async(&buffer, &mut host)?.wait()?;
                queue.write_async(&buffer, &mut host)?;
                queue.finish()?;
            }
            Ok(start.elapsed().as_secs_f64() / (2 * copies) as f64)
        })?;
        times.push((4.0 * values as f64, secs));
    }
    Ok(MessageLink::fit(&times))
}

/// Returns the smallest mean time of several series. `time` returns the mean time of a number of
/// messages, the same on all ranks.
fn fastest_series(mut time: impl FnMut(usize) -> Result<f64, MeasureError>) -> Result<f64, MeasureError> {
    let first = time(FIRST)?;
    let count = ((SERIES_SECS / first.max(1e-9)) as usize).clamp(FIRST, MOST);
    let mut fastest = f64::INFINITY;
    for _ in 0..SERIES {
        fastest = fastest.min(time(count)?);
    }
    Ok(fastest)
}

/// Measures messages between ranks 0 and 1: 8 bytes, an eighth of `bytes`, and `bytes`. The others
/// wait. All ranks must call it. Returns nothing for one rank.
pub(super) fn ping_pong(transport: &Transport, bytes: usize) -> Result<Vec<PingPong>, MeasureError> {
    if transport.size() < 2 {
        return Ok(Vec::new());
    }
    let mut results = Vec::new();
    if let Some(pair) = transport.first_ranks(2) {
        for bytes in [8, bytes / 8, bytes] {
            let secs = fastest_series(|rounds| time_rounds(&pair, bytes, rounds))?;
            results.push(PingPong { bytes, secs });
        }
    }
    transport.barrier()?;
    Ok(results)
}

/// Returns the seconds of one direction, on both ranks.
fn time_rounds(pair: &Transport, bytes: usize, rounds: usize) -> Result<f64, MeasureError> {
    let (sent, mut received) = (vec![1u8; bytes], vec![0u8; bytes]);
    let other = 1 - pair.rank();
    pair.barrier()?;
    let start = Instant::now();
    for _ in 0..rounds {
        for sender in 0..2 {
            pair.exchange(|exchange| match pair.rank() == sender {
                true => exchange.send(other, PING, &sent),
                false => exchange.receive(other, PING, &mut received),
            })?;
        }
    }
    let secs = start.elapsed().as_secs_f64() / (2 * rounds) as f64;
    Ok(pair.all_reduce(&[secs], f64::max)?[0])
}
