//! Time of the exchange of borders without computation, for models of scaling.

use std::sync::Arc;
use std::time::Instant;

use orrery_cluster::{LinkError, MessagePath, Team};
use orrery_device::Device;

use super::{BorderLinks, Neighbours};

/// Time of an exchange of borders.
#[derive(Clone, Debug, PartialEq)]
pub struct BorderTime {
    /// Seconds of one exchange: the mean of several on the slowest rank.
    pub secs: f64,
    /// Paths between all ranks, each once. Empty for one rank.
    pub paths: Vec<MessagePath>,
}

/// Measures `exchanges` exchanges in which each rank sends a border of `values` numbers in f32 to
/// each of its neighbours, on the paths that waves and heat use on `device` or, without one, on
/// CPUs. All ranks of a team must call it.
pub fn time_border_exchange(
    team: &Team,
    device: Option<&Device>,
    values: usize,
    exchanges: usize,
) -> Result<BorderTime, LinkError> {
    let neighbours = Neighbours::new(team, false);
    let transport = team.transport();
    let (seconds, paths) = match device {
        Some(device) => {
            let mut links = BorderLinks::<f32>::new(device, &neighbours, values)?;
            let seconds = time_on_device(device, &mut links, &neighbours, values, exchanges)?;
            (seconds, links.paths())
        }
        None => {
            let paths = if neighbours.is_alone() { vec![] } else { vec![MessagePath::Messages] };
            (time_on_host(&neighbours, values, exchanges)?, paths)
        }
    };
    let slowest = transport.all_reduce(&[seconds], f64::max)?[0];
    let paths = MessagePath::of_all_ranks(transport, &paths)?;
    Ok(BorderTime { secs: slowest / exchanges.max(1) as f64, paths })
}

fn time_on_host(neighbours: &Neighbours, values: usize, exchanges: usize) -> Result<f64, LinkError> {
    let borders = [vec![1.0f32; values], vec![2.0; values]];
    let mut ghosts = borders.clone();
    neighbours.transport.barrier()?;
    let start = Instant::now();
    for _ in 0..exchanges {
        let [low, high] = &mut ghosts;
        neighbours.exchange([&borders[0], &borders[1]], [low, high], |_| Ok(()))?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn time_on_device(
    device: &Device,
    links: &mut BorderLinks<f32>,
    neighbours: &Neighbours,
    values: usize,
    exchanges: usize,
) -> Result<f64, LinkError> {
    // A border on each side, between ghosts on each side.
    let (ghosts, borders) =
        ([0..values, 3 * values..4 * values], [values..2 * values, 2 * values..3 * values]);
    let fields = [Arc::new(device.zeros::<f32>(4 * values)?), Arc::new(device.zeros::<f32>(4 * values)?)];
    // The first two exchanges allocate memory.
    let mut start = Instant::now();
    for exchange in 0..2 + exchanges {
        if exchange == 2 {
            links.queue().finish()?;
            neighbours.transport.barrier()?;
            start = Instant::now();
        }
        let field = &fields[exchange % 2];
        links.start(field, borders.clone())?;
        links.finish(field, ghosts.clone())?;
    }
    links.queue().finish()?;
    Ok(start.elapsed().as_secs_f64())
}
