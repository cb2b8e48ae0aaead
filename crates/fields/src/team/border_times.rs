//! Time of the exchange of borders without computation, for models of scaling.

use std::sync::Arc;
use std::time::Instant;

use orrery_cluster::Team;
use orrery_device::Device;

use super::{DeviceLinks, LinkError, Neighbours};

/// Returns the seconds of one exchange in which each rank sends a border of `values` numbers in f32
/// to each of its neighbours, on the path that waves and heat use: between host memories without a
/// `device`, else from device to device or through page-locked memory. It is the mean of
/// `exchanges` exchanges on the slowest rank. All ranks of a team must call it.
pub fn time_border_exchange(
    team: &Team,
    device: Option<&Device>,
    values: usize,
    exchanges: usize,
) -> Result<f64, LinkError> {
    let neighbours = Neighbours::new(team, false);
    let transport = team.transport();
    let seconds = match device {
        Some(device) => time_on_device(device, &neighbours, values, exchanges)?,
        None => time_on_host(&neighbours, values, exchanges)?,
    };
    let slowest = transport.all_reduce(&[seconds], f64::max)?[0];
    Ok(slowest / exchanges.max(1) as f64)
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
    neighbours: &Neighbours,
    values: usize,
    exchanges: usize,
) -> Result<f64, LinkError> {
    let mut links = DeviceLinks::<f32>::new(device, neighbours, values)?;
    // A border on each side, between ghosts on each side.
    let (ghosts, borders) =
        ([0..values, 3 * values..4 * values], [values..2 * values, 2 * values..3 * values]);
    let fields = [Arc::new(device.zeros::<f32>(4 * values)?), Arc::new(device.zeros::<f32>(4 * values)?)];
    neighbours.transport.barrier()?;
    let start = Instant::now();
    for exchange in 0..exchanges {
        let field = &fields[exchange % 2];
        links.start(field, borders.clone())?;
        links.finish(field, ghosts.clone())?;
    }
    links.queue().finish()?;
    Ok(start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use orrery_cluster::threads;
    use orrery_device::testing::test_devices;

    use super::*;

    #[test]
    fn all_ranks_get_the_time_of_the_slowest() {
        let device = &test_devices()[0];
        for device in [None, Some(device)] {
            let times =
                threads::run(3, |transport| time_border_exchange(&Team::new(transport), device, 1000, 4));
            let times = times.unwrap();
            assert!(times[0] > 0.0 && times.iter().all(|time| *time == times[0]), "{times:?}");
        }
    }
}
