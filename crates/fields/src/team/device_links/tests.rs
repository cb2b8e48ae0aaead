//! Tests of all paths, with threads as ranks.

use orrery_cluster::{Team, threads};
use orrery_device::testing::test_devices;

use super::*;

const BORDER: usize = 100;
const LEN: usize = 1000;

const DIRECT: Paths = Paths { is_direct: Device::shares_memory_with, offers_shared: false };
const SHARED: Paths = Paths { is_direct: |_, _| false, offers_shared: true };
const STAGED: Paths = Paths { is_direct: |_, _| false, offers_shared: false };

/// Returns the paths that a test can use on this system, with their names.
fn all_paths() -> Vec<(BorderPath, Paths)> {
    let shared = if cfg!(target_os = "linux") { BorderPath::Shared } else { BorderPath::Staged };
    vec![(BorderPath::Direct, DIRECT), (shared, SHARED), (BorderPath::Staged, STAGED)]
}

/// Returns the fields of all ranks after some steps in which each value becomes that of its
/// neighbour: a border moves by one rank per step. `paths` chooses the links of a rank, which must
/// become links of this kind.
fn moved_borders(
    device: &Device,
    ranks: usize,
    paths: impl Fn(usize) -> Paths + Sync,
    expected: BorderPath,
) -> Vec<Vec<f32>> {
    let ghosts = [0..BORDER, LEN - BORDER..LEN];
    let borders = [BORDER..2 * BORDER, LEN - 2 * BORDER..LEN - BORDER];
    let fields = threads::run(ranks, |transport| {
        let neighbours = Neighbours::new(&Team::new(transport), true);
        let paths = paths(transport.rank());
        let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, paths)?;
        assert_eq!(links.paths().collect::<Vec<_>>(), [expected; 2]);
        let values: Vec<f32> = (0..LEN).map(|k| (1000 * transport.rank() + k) as f32).collect();
        let mut field = Arc::new(device.upload(&values)?);
        let mut next = Arc::new(device.zeros(LEN)?);
        for _ in 0..5 {
            // The next step sends the ghosts that it has received.
            let queue = links.queue();
            queue.copy(field.range(ghosts[0].clone())?, next.range(borders[1].clone())?)?;
            queue.copy(field.range(ghosts[1].clone())?, next.range(borders[0].clone())?)?;
            links.start(&next, borders.clone())?;
            links.finish(&next, ghosts.clone())?;
            std::mem::swap(&mut field, &mut next);
        }
        let mut values = vec![0.0; LEN];
        links.queue().read(&*field, &mut values)?;
        Ok::<_, LinkError>(values)
    });
    fields.unwrap()
}

/// Checks the ghosts of all ranks. After five steps the lower ghosts of a rank were sent five ranks
/// below, and the upper ones five ranks above.
#[track_caller]
fn assert_moved(fields: &[Vec<f32>]) {
    let ranks = fields.len();
    for (rank, field) in fields.iter().enumerate() {
        let [below, above] = [(rank + 5 * ranks - 5) % ranks, (rank + 5) % ranks].map(|rank| 1000 * rank);
        for k in 0..BORDER {
            assert_eq!(field[k], (below + k) as f32, "{ranks} ranks, rank {rank}");
            assert_eq!(field[LEN - BORDER + k], (above + LEN - BORDER + k) as f32);
        }
    }
}

/// With two ranks, both neighbours of a rank are the same one.
#[test]
fn borders_reach_their_neighbours_on_every_path() {
    for device in test_devices() {
        for ranks in [2, 3] {
            for (expected, paths) in all_paths() {
                assert_moved(&moved_borders(&device, ranks, |_| paths, expected));
            }
        }
    }
}

/// A rank that has no shared memory uses messages, and so do its neighbours.
#[test]
fn both_ends_of_a_link_have_the_same_path() {
    let device = &test_devices()[0];
    for ranks in [2, 3] {
        for shared_rank in 0..ranks {
            let paths = |rank| if rank == shared_rank { SHARED } else { STAGED };
            assert_moved(&moved_borders(device, ranks, paths, BorderPath::Staged));
        }
    }
}

/// The buffers of a link take turns. A rank that is late must still get the borders of its step.
#[test]
fn a_late_rank_gets_the_borders_of_its_step() {
    let device = &test_devices()[0];
    for (_, paths) in all_paths() {
        let result = threads::run(2, |transport| {
            let neighbours = Neighbours::new(&Team::new(transport), false);
            let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, paths)?;
            let (own, other) = (transport.rank() as f32, 1.0 - transport.rank() as f32);
            // Direct links need two fields that take turns.
            let fields = [Arc::new(device.zeros::<f32>(LEN)?), Arc::new(device.zeros::<f32>(LEN)?)];
            let (ghosts, borders) = (0..BORDER, BORDER..2 * BORDER);
            for step in 0..40u32 {
                let field = &fields[step as usize % 2];
                let border = vec![10.0 * step as f32 + own; BORDER];
                links.queue().write(field.range(borders.clone())?, &border)?;
                if step % 7 == transport.rank() as u32 {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                links.start(field, [borders.clone(), borders.clone()])?;
                links.finish(field, [ghosts.clone(), ghosts.clone()])?;
                if step % 5 == 0 {
                    let mut found = vec![0.0; BORDER];
                    links.queue().read(field.range(ghosts.clone())?, &mut found)?;
                    assert_eq!(found, vec![10.0 * step as f32 + other; BORDER], "step {step}");
                }
            }
            Ok::<_, LinkError>(())
        });
        result.unwrap();
    }
}

/// The second connection must not receive the borders of the first one.
#[test]
fn borders_that_are_not_received_do_not_remain() {
    let device = &test_devices()[0];
    for (_, paths) in all_paths() {
        let result = threads::run(2, |transport| {
            let neighbours = Neighbours::new(&Team::new(transport), false);
            let field = Arc::new(device.upload(&vec![transport.rank() as f32; LEN])?);
            for _ in 0..2 {
                let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, paths)?;
                links.start(&field, [BORDER..2 * BORDER, BORDER..2 * BORDER])?;
            }
            let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, paths)?;
            links.start(&field, [BORDER..2 * BORDER, BORDER..2 * BORDER])?;
            links.finish(&field, [0..BORDER, LEN - BORDER..LEN])?;
            let mut values = vec![0.0; LEN];
            links.queue().read(&*field, &mut values)?;
            drop(links);
            // No message remains on either tag.
            let other = 1 - transport.rank();
            for tag in SENT {
                let limit = std::time::Duration::from_millis(1);
                assert!(!transport.wait_for_message(other, tag, limit)?);
            }
            Ok::<_, LinkError>([values[0], values[LEN - 1]])
        });
        assert_eq!(result.unwrap(), [[0.0, 1.0], [0.0, 1.0]]);
    }
}

#[test]
fn a_device_that_fails_is_reported() {
    let device = &test_devices()[0];
    for paths in [SHARED, STAGED] {
        let result = threads::run(2, |transport| {
            let neighbours = Neighbours::new(&Team::new(transport), false);
            let mut links = DeviceLinks::<f32>::with_paths(device, &neighbours, BORDER, paths)?;
            let field = Arc::new(device.zeros(LEN)?);
            // The range is outside the field on one rank.
            let end = if transport.rank() == 1 { LEN + 1 } else { LEN };
            links.start(&field, [end - BORDER..end, end - BORDER..end])?;
            links.finish(&field, [0..BORDER, 0..BORDER])
        });
        assert!(matches!(result, Err(LinkError::Device(_))), "{result:?}");
    }
}
