//! Tests of all paths, with threads as ranks.

use std::time::Duration;

use orrery_device::testing::test_devices;

use super::paths::Offer;
use super::*;
use crate::threads;

const UP: Tag = Tag::new(1);
const DOWN: Tag = Tag::new(2);

const BORDER: usize = 100;
const LEN: usize = 1000;

const DIRECT: AllowedPaths = AllowedPaths { direct: true, shared: false };
const SHARED: AllowedPaths = AllowedPaths { direct: false, shared: true };
const STAGED: AllowedPaths = AllowedPaths { direct: false, shared: false };

/// Returns the paths that a test can use on this system.
fn all_paths() -> Vec<(MessagePath, AllowedPaths)> {
    let shared = if cfg!(target_os = "linux") { MessagePath::Shared } else { MessagePath::Staged };
    vec![(MessagePath::Direct, DIRECT), (shared, SHARED), (MessagePath::Staged, STAGED)]
}

/// Returns messages to or from two ranks.
fn pair(ranks: [usize; 2], tags: [Tag; 2], ranges: [Range<usize>; 2]) -> [DeviceMessage; 2] {
    let [first, second] = ranges;
    [
        DeviceMessage { rank: ranks[0], tag: tags[0], range: first },
        DeviceMessage { rank: ranks[1], tag: tags[1], range: second },
    ]
}

/// Returns the ranks before and after one in a ring.
fn neighbours(transport: &Transport) -> [usize; 2] {
    let (rank, size) = (transport.rank(), transport.size());
    [(rank + size - 1) % size, (rank + 1) % size]
}

/// Returns the fields of all ranks after some rounds in which each border becomes that of its
/// neighbour: a border moves by one rank per round. `allowed` are the paths of a rank, which must
/// become `expected`.
fn moved_borders(
    device: &Device,
    ranks: usize,
    allowed: impl Fn(usize) -> AllowedPaths + Sync,
    expected: MessagePath,
) -> Vec<Vec<f32>> {
    let ghosts = [0..BORDER, LEN - BORDER..LEN];
    let borders = [BORDER..2 * BORDER, LEN - 2 * BORDER..LEN - BORDER];
    let fields = threads::run(ranks, |transport| {
        let (near, allowed) = (neighbours(transport), allowed(transport.rank()));
        let mut links = DeviceLinks::<f32>::with_paths(device, transport, &near, BORDER, allowed)?;
        assert_eq!(links.paths(), vec![expected; ranks - 1]);
        let queue = device.new_queue()?;
        let values: Vec<f32> = (0..LEN).map(|k| (1000 * transport.rank() + k) as f32).collect();
        let mut field = Arc::new(device.upload(&values)?);
        let mut next = Arc::new(device.zeros(LEN)?);
        for _ in 0..5 {
            // The next round sends the ghosts that this one has received.
            queue.copy(field.range(ghosts[0].clone())?, next.range(borders[1].clone())?)?;
            queue.copy(field.range(ghosts[1].clone())?, next.range(borders[0].clone())?)?;
            links.start(&queue, &next, pair(near, [DOWN, UP], borders.clone()))?;
            links.finish(&queue, &next, &pair(near, [UP, DOWN], ghosts.clone()))?;
            std::mem::swap(&mut field, &mut next);
        }
        let mut values = vec![0.0; LEN];
        queue.read(&*field, &mut values)?;
        Ok::<_, LinkError>(values)
    });
    fields.unwrap()
}

/// Checks the ghosts of all ranks. After five rounds the lower ghosts of a rank were sent five
/// ranks below, and the upper ones five ranks above.
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
fn messages_arrive_on_every_path() {
    for device in test_devices() {
        for ranks in [2, 3] {
            for (expected, allowed) in all_paths() {
                assert_moved(&moved_borders(&device, ranks, |_| allowed, expected));
            }
        }
    }
}

/// A rank that has no shared memory, or must not copy directly, uses messages, and so do the others
/// when they send to it.
#[test]
fn both_ends_have_the_same_path() {
    let device = &test_devices()[0];
    for allowed in [SHARED, DIRECT] {
        for allowed_rank in 0..2 {
            let paths = |rank| if rank == allowed_rank { allowed } else { STAGED };
            assert_moved(&moved_borders(device, 2, paths, MessagePath::Staged));
        }
    }
}

/// Each of three ranks sends a part to all others, whose length changes from round to round. Ranks
/// 0 and 1 use another path than the others.
#[test]
fn messages_of_any_length_reach_several_ranks_on_different_paths() {
    let len_of = |round: usize, rank: usize| [10, 300, 0, 2000, 7][(round + rank) % 5];
    let value_of = |round: usize, rank: usize, k: usize| (10_000 * round + 3000 * rank + k) as u32;
    for device in test_devices() {
        for (_, allowed) in all_paths() {
            let found = threads::run(3, |transport| {
                let own = transport.rank();
                let allowed = if own == 2 { STAGED } else { allowed };
                let others: Vec<usize> = transport.other_ranks().collect();
                let mut links = DeviceLinks::<u32>::with_paths(&device, transport, &others, 1, allowed)?;
                let queue = device.new_queue()?;
                let sent = [Arc::new(device.zeros::<u32>(2000)?), Arc::new(device.zeros::<u32>(2000)?)];
                let received = device.zeros::<u32>(3 * 2000)?;
                for round in 0..7 {
                    let values: Vec<u32> = (0..len_of(round, own)).map(|k| value_of(round, own, k)).collect();
                    let buffer = &sent[round % 2];
                    queue.write(buffer.range(..values.len())?, &values)?;
                    let to = |rank| DeviceMessage { rank, tag: UP, range: 0..values.len() };
                    links.start(&queue, buffer, transport.other_ranks().map(to))?;
                    let from = |rank| {
                        let range = 2000 * rank..2000 * rank + len_of(round, rank);
                        DeviceMessage { rank, tag: UP, range }
                    };
                    let messages: Vec<_> = transport.other_ranks().map(from).collect();
                    links.finish(&queue, &received, &messages)?;
                    let mut found = vec![0; 3 * 2000];
                    queue.read(&received, &mut found)?;
                    for DeviceMessage { rank, range, .. } in messages {
                        let expected = (0..range.len()).map(|k| value_of(round, rank, k));
                        assert!(found[range].iter().copied().eq(expected), "round {round}, from {rank}");
                    }
                }
                Ok::<_, LinkError>(links.paths())
            });
            let found = found.unwrap();
            assert!(found[0][1] == MessagePath::Staged && found[2] == [MessagePath::Staged; 2], "{found:?}");
            assert_eq!(found[0][0], found[1][0]);
        }
    }
}

/// Two messages with the same range to one rank, which receives them in the other order. The range
/// grows, so shared memory is replaced.
#[test]
fn one_range_may_be_sent_twice_to_a_rank() {
    let device = &test_devices()[0];
    for (_, allowed) in all_paths() {
        let result = threads::run(2, |transport| {
            let other = 1 - transport.rank();
            let mut links = DeviceLinks::<u32>::with_paths(device, transport, &[other, other], 1, allowed)?;
            let received = device.zeros::<u32>(LEN)?;
            for round in 1..6 {
                let len = 50 * round;
                let values = vec![(10 * round + transport.rank()) as u32; len];
                let sent = Arc::new(device.upload(&values)?);
                let ends = [0..len, LEN - len..LEN];
                links.start(device.queue(), &sent, pair([other; 2], [UP, DOWN], [0..len, 0..len]))?;
                links.finish(device.queue(), &received, &pair([other; 2], [DOWN, UP], ends.clone()))?;
                let mut found = vec![0; LEN];
                device.queue().read(&received, &mut found)?;
                let expected = vec![(10 * round + other) as u32; len];
                assert!(ends.into_iter().all(|end| found[end] == expected), "round {round}");
                transport.barrier()?;
            }
            Ok::<_, LinkError>(())
        });
        result.unwrap();
    }
}

/// Memory of two turns is used. A rank that is late must still get the message of its round.
#[test]
fn a_late_rank_gets_the_message_of_its_round() {
    let device = &test_devices()[0];
    for (_, allowed) in all_paths() {
        let result = threads::run(2, |transport| {
            let other = 1 - transport.rank();
            let mut links = DeviceLinks::<f32>::with_paths(device, transport, &[other], BORDER, allowed)?;
            let queue = device.new_queue()?;
            // Direct messages need two buffers that take turns.
            let fields = [Arc::new(device.zeros::<f32>(LEN)?), Arc::new(device.zeros::<f32>(LEN)?)];
            let message = |range: Range<usize>| DeviceMessage { rank: other, tag: UP, range };
            // 16 MiB: while a device copies them, the other rank starts its next round.
            let long = [device.zeros::<f32>(4 << 20)?, device.zeros(4 << 20)?];
            for round in 0..40u32 {
                let field = &fields[round as usize % 2];
                let value_of = |rank: usize| (10 * round as usize + rank) as f32;
                queue.write(field.range(BORDER..2 * BORDER)?, &[value_of(transport.rank()); BORDER])?;
                links.start(&queue, field, [message(BORDER..2 * BORDER)])?;
                let is_late = round % 7 == transport.rank() as u32;
                if is_late {
                    queue.copy(&long[0], &long[1])?;
                }
                links.finish(&queue, field, &[message(0..BORDER)])?;
                if is_late || round % 5 == 0 {
                    let mut found = vec![0.0; BORDER];
                    queue.read(field.range(0..BORDER)?, &mut found)?;
                    assert_eq!(found, [value_of(other); BORDER], "round {round}");
                }
            }
            Ok::<_, LinkError>(())
        });
        result.unwrap();
    }
}

/// The next connection must not receive the messages of one that was dropped.
#[test]
fn discarded_messages_do_not_remain() {
    let device = &test_devices()[0];
    for (_, allowed) in all_paths() {
        let result = threads::run(2, |transport| {
            let other = 1 - transport.rank();
            let field = Arc::new(device.upload(&vec![transport.rank() as f32; LEN])?);
            let message = |range: Range<usize>| DeviceMessage { rank: other, tag: UP, range };
            for _ in 0..2 {
                let mut links = DeviceLinks::<f32>::with_paths(device, transport, &[other], BORDER, allowed)?;
                links.start(device.queue(), &field, [message(0..BORDER)])?;
                links.discard([(other, UP)]);
                links.discard([(other, UP)]);
            }
            assert!(!transport.wait_for_message(other, UP, Duration::from_millis(1))?);
            Ok::<_, LinkError>(())
        });
        result.unwrap();
    }
}

#[test]
fn a_device_that_fails_is_reported() {
    let device = &test_devices()[0];
    for allowed in [SHARED, STAGED] {
        let result = threads::run(2, |transport| {
            let other = 1 - transport.rank();
            let mut links = DeviceLinks::<f32>::with_paths(device, transport, &[other], BORDER, allowed)?;
            let field = Arc::new(device.zeros(LEN)?);
            // The range is outside the field on one rank.
            let end = if transport.rank() == 1 { LEN + 1 } else { LEN };
            let message = |range: Range<usize>| DeviceMessage { rank: other, tag: UP, range };
            links.start(device.queue(), &field, [message(end - BORDER..end)])?;
            links.finish(device.queue(), &field, &[message(0..BORDER)])
        });
        assert!(matches!(result, Err(LinkError::Device(_))), "{result:?}");
    }
}

/// A message that is longer than expected has another length than the memory of its range.
#[test]
fn memory_that_is_too_short_is_refused() {
    let device = &test_devices()[0];
    let result = threads::run(2, |transport| {
        let other = 1 - transport.rank();
        let mut links = DeviceLinks::<f32>::with_paths(device, transport, &[other], 10, SHARED)?;
        let field = Arc::new(device.zeros(LEN)?);
        let message = |range: Range<usize>| DeviceMessage { rank: other, tag: UP, range };
        links.start(device.queue(), &field, [message(0..10)])?;
        links.finish(device.queue(), &field, &[message(0..11)])
    });
    let Err(LinkError::Cluster(error)) = result else { panic!("{result:?}") };
    if cfg!(target_os = "linux") {
        assert!(matches!(error, ClusterError::Length { found: 40, expected: 44, .. }), "{error:?}");
    }
}

#[test]
fn offers_and_notices_pass_through_messages() {
    let nothing = Offer { takes_device_memory: false, memory: None };
    let cuda = Offer { takes_device_memory: true, memory: None };
    for offer in [nothing, cuda] {
        assert_eq!(Offer::from_bytes(&offer.to_bytes()), offer);
    }
    if cfg!(target_os = "linux") {
        let device = &test_devices()[0];
        let memory = device.new_shared_pinned::<f32>(3).unwrap();
        let offer = Offer { takes_device_memory: false, memory: Some(memory.name().clone()) };
        assert_eq!(Offer::from_bytes(&offer.to_bytes()), offer);
        let mut shared = SharedMessages::<f32>::new(device);
        let bad_notice = LinkError::Cluster(ClusterError::Notice { from: 3, tag: UP });
        for notice in ["", "0", "x 0 name", "0 0 no name"] {
            assert_eq!(shared.open(3, UP, notice.as_bytes()).err(), Some(bad_notice.clone()));
        }
        assert_eq!(shared.open(3, UP, b"1 2"), Ok(((3, 1, 2), false)));
        assert_eq!(shared.received((3, 1, 2), UP, 1).err(), Some(bad_notice));
        let notice = format!("1 2 {}", memory.name().to_text());
        assert_eq!(shared.open(3, UP, notice.as_bytes()), Ok(((3, 1, 2), true)));
        assert_eq!(shared.received((3, 1, 2), UP, 3).map(|memory| memory.len()), Ok(3));
    }
}
