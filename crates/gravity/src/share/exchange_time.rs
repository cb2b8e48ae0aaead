//! Time of the exchange of forces without computation, for models of scaling.

use std::time::Instant;

use orrery_cluster::{LinkError, MessagePath, Transport};
use orrery_device::{Buffer, Device};

use super::{DeviceGather, Evaluation, TargetShare};
use crate::bodies::BodiesError;

/// Time of an exchange of forces.
#[derive(Clone, Debug, PartialEq)]
pub struct ForceExchangeTime {
    /// Seconds of one exchange: the mean of several on the slowest rank.
    pub secs: f64,
    /// Paths between all ranks, each once. Empty for one rank.
    pub paths: Vec<MessagePath>,
}

/// Measures `exchanges` exchanges in which the ranks give one another the forces on equal parts of
/// `bodies` bodies, on their devices or, without one, on CPUs. All ranks must call it.
pub fn time_force_exchange(
    transport: &Transport,
    device: Option<&Device>,
    bodies: usize,
    exchanges: usize,
) -> Result<ForceExchangeTime, BodiesError> {
    let share = TargetShare::new(transport);
    let (secs, paths) = match device {
        Some(device) => time_on_device(transport, &share, device, bodies, exchanges)?,
        None => {
            let paths = if share.is_divided() { vec![MessagePath::Messages] } else { vec![] };
            (time_on_host(transport, &share, bodies, exchanges)?, paths)
        }
    };
    let slowest = transport.all_reduce(&[secs], f64::max)?[0];
    let paths = MessagePath::of_all_ranks(transport, &paths)?;
    Ok(ForceExchangeTime { secs: slowest / exchanges.max(1) as f64, paths })
}

fn time_on_device(
    transport: &Transport,
    share: &TargetShare,
    device: &Device,
    bodies: usize,
    exchanges: usize,
) -> Result<(f64, Vec<MessagePath>), LinkError> {
    let mut gather = DeviceGather::new(device)?;
    let columns: [Buffer<f64>; 3] = [device.zeros(bodies)?, device.zeros(bodies)?, device.zeros(bodies)?];
    let columns = columns.each_ref();
    let queue = device.queue();
    let mut exchange = || {
        let evaluation = share.of(Evaluation::Forces);
        let parts = evaluation.divide(bodies, |target| target);
        let span = (queue.record()?, queue.record()?);
        gather.exchange_columns(evaluation, &parts, &columns, None, Ok(span))
    };
    // The first one finds the path, and both allocate memory.
    exchange()?;
    exchange()?;
    queue.finish()?;
    transport.barrier()?;
    let start = Instant::now();
    for _ in 0..exchanges {
        exchange()?;
    }
    queue.finish()?;
    Ok((start.elapsed().as_secs_f64(), gather.paths()))
}

fn time_on_host(
    transport: &Transport,
    share: &TargetShare,
    bodies: usize,
    exchanges: usize,
) -> Result<f64, LinkError> {
    let mut results = vec![[0.0f64; 4]; bodies];
    transport.barrier()?;
    let start = Instant::now();
    for _ in 0..exchanges {
        let evaluation = share.of(Evaluation::Forces);
        let parts = evaluation.divide(bodies, |target| target);
        evaluation.complete(0.0, &mut results, &parts)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use orrery_cluster::threads;
    use orrery_device::testing::test_devices_with_f64;

    use super::*;

    #[test]
    fn all_ranks_get_the_time_of_the_slowest() {
        let devices = test_devices_with_f64();
        for device in [None].into_iter().chain(devices.iter().map(Some)) {
            for ranks in [1, 3] {
                let times =
                    threads::run(ranks, |transport| time_force_exchange(transport, device, 1000, 4)).unwrap();
                assert!(times[0].secs > 0.0 && times.iter().all(|time| *time == times[0]), "{times:?}");
                let path = if device.is_some() { MessagePath::Direct } else { MessagePath::Messages };
                assert_eq!(times[0].paths, if ranks > 1 { vec![path] } else { vec![] });
            }
        }
    }
}
