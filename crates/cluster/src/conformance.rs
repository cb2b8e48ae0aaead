//! Checks that every transport must pass, for any number of ranks. All ranks run them together.
//!
//! Each check compares received bytes with those that the sender must have sent, which follow from
//! ranks, tags and numbers alone. It returns the first difference.

use std::time::{Duration, SystemTime};

use orrery_device::{Backend, BufferRange, Device};

use crate::error::ClusterError;
use crate::tag::Tag;
use crate::transport::Transport;

/// Name of a check, and the function that returns a description of the first failure.
pub type TransportCheck = (&'static str, fn(&Transport) -> Result<(), String>);

/// All checks, in the order in which all ranks run them.
pub const CHECKS: &[TransportCheck] = &[
    ("empty messages", check_empty_messages),
    ("messages to the own rank", check_own_rank),
    ("messages in order", check_order),
    ("many short messages in random order", check_random_order),
    ("messages of every length", check_lengths),
    ("long messages", check_long_messages),
    ("wrong length", check_wrong_length),
    ("waiting with a limit", check_limited_wait),
    ("requests that are dropped", check_dropped_requests),
    ("barrier", check_barrier),
    ("broadcast", check_broadcast),
    ("gather", check_gather),
    ("all-gather", check_all_gather),
    ("reduction in rank order", check_reduction),
    ("groups of the first ranks", check_first_ranks),
    ("ranks that do not exist", check_missing_rank),
    ("counters", check_counters),
];

/// Runs all checks. All ranks must call it. The error names the check.
pub fn check_all(transport: &Transport) -> Result<(), String> {
    for (name, check) in CHECKS {
        check(transport).map_err(|message| format!("{name}: {message}"))?;
        transport.barrier().map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Checks messages between the memories of devices. A transport that does not accept such memory
/// must return [`ClusterError::DeviceMemory`]. All ranks must call it, each with its device.
pub fn check_device_memory(transport: &Transport, device: &Device) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    let values: Vec<u64> = (0..10_000).map(|k| 1_000_000 * rank as u64 + k).collect();
    let sent = device.upload(&values).map_err(|e| e.to_string())?;
    let received = device.zeros::<u64>(values.len()).map_err(|e| e.to_string())?;
    let (from, to) = ((rank + size - 1) % size, (rank + 1) % size);
    let is_accepted = transport.is_cuda_aware() && device.properties().backend == Backend::Cuda;
    let part = |buffer| BufferRange::from(buffer).range(1..9_000).expect("is within the buffer");
    let result = transport.exchange(|exchange| {
        exchange.receive_on_device(from, TAG, part(&received))?;
        exchange.send_from_device(to, TAG, part(&sent))
    });
    if !is_accepted {
        return match result {
            Err(ClusterError::DeviceMemory) => Ok(()),
            other => Err(format!("device memory: found {other:?}, expected an error")),
        };
    }
    result.map_err(|e| format!("device memory: {e}"))?;
    let found = received.to_vec().map_err(|e| e.to_string())?;
    let offset = 1_000_000 * from as u64;
    let expected = |k: usize| if (1..9_000).contains(&k) { offset + k as u64 } else { 0 };
    match (0..values.len()).find(|&k| found[k] != expected(k)) {
        None => Ok(()),
        Some(k) => Err(format!("device memory: element {k} is {}, expected {}", found[k], expected(k))),
    }
}

/// Length of a message whose count does not fit into 32 bits with a sign.
const HUGE: usize = (1 << 31) + 5;

/// Checks that a message of more than 2^31 bytes passes from the first to the last rank. It needs
/// 2 GiB there, so it is not one of [`CHECKS`]. All ranks must call it.
pub fn check_huge_message(transport: &Transport) -> Result<(), String> {
    // Around the ends of the chunks of MPI, and at both ends of the message.
    let marked = [0, (1 << 30) - 1, 1 << 30, (1 << 31) - 1, 1 << 31, HUGE - 1];
    let last = transport.size() - 1;
    if transport.rank() == 0 {
        let mut message = vec![0; HUGE];
        for (number, &at) in marked.iter().enumerate() {
            message[at] = number as u8 + 1;
        }
        let send = transport.start_send(last, TAG, message).map_err(|e| e.to_string())?;
        send.wait().map_err(|e| e.to_string())?;
    }
    if transport.rank() < last {
        return Ok(());
    }
    let message = transport.receive(0, TAG).map_err(|e| e.to_string())?;
    let found = marked.map(|at| message.get(at).copied());
    let zeros = message.iter().filter(|byte| **byte == 0).count();
    if (message.len(), zeros) != (HUGE, HUGE - marked.len()) || found != [1, 2, 3, 4, 5, 6].map(Some) {
        let len = message.len();
        return Err(format!("found {len} bytes, {zeros} zeros and {found:?}, expected {HUGE} bytes"));
    }
    Ok(())
}

const TAG: Tag = Tag::new(7);

/// Bytes of a message, which depend on sender, receiver and number.
fn content(from: usize, to: usize, number: usize, length: usize) -> Vec<u8> {
    let mut state = mix(((from as u64) << 40) ^ ((to as u64) << 20) ^ number as u64);
    let next_byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(next_byte).collect()
}

/// Returns pseudorandom bits (splitmix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Puts `list` into a pseudorandom order.
fn shuffle<T>(list: &mut [T], seed: u64) {
    for last in (1..list.len()).rev() {
        list.swap(last, (mix(seed ^ last as u64) % (last as u64 + 1)) as usize);
    }
}

fn text(error: ClusterError) -> String {
    error.to_string()
}

fn expect_equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}

/// Compares messages without printing their bytes.
fn expect_message(what: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    expect_equal(&format!("{what}, length"), found.len(), expected.len())?;
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(index) => Err(format!("{what}: byte {index} is {}, expected {}", found[index], expected[index])),
    }
}

fn check_empty_messages(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let sent: [f64; 0] = [];
    let mut received: [f64; 0] = [];
    let exchange = transport.exchange(|exchange| {
        exchange.send(next, TAG, &sent)?;
        exchange.receive(previous, TAG, &mut received)
    });
    exchange.map_err(text)?;
    // Dropped: the transport sends it.
    drop(transport.start_send(next, TAG, Vec::new()).map_err(text)?);
    expect_equal("length", transport.receive(previous, TAG).map_err(text)?.len(), 0)?;
    let request = transport.start_receive(previous, TAG, 0).map_err(text)?;
    transport.start_send(next, TAG, Vec::new()).and_then(|request| request.wait()).map_err(text)?;
    expect_equal("length", request.wait().map_err(text)?.len(), 0)
}

fn check_own_rank(transport: &Transport) -> Result<(), String> {
    let rank = transport.rank();
    for length in [1, 1000, 1 << 20] {
        let sent = content(rank, rank, length, length);
        let mut received = vec![0; length];
        let exchange = transport.exchange(|exchange| {
            exchange.send(rank, TAG, &sent)?;
            exchange.receive(rank, TAG, &mut received)
        });
        exchange.map_err(text)?;
        expect_message("borrowed", &received, &sent)?;
        let request = transport.start_send(rank, TAG, sent.clone()).map_err(text)?;
        expect_message("owned", &transport.receive(rank, TAG).map_err(text)?, &sent)?;
        request.wait().map_err(text)?;
    }
    Ok(())
}

/// Receives are served in the order of their start, not in the order of their completion.
fn check_order(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    const COUNT: usize = 20;
    let receives: Result<Vec<_>, _> = (0..COUNT).map(|_| transport.start_receive(previous, TAG, 8)).collect();
    let mut receives = receives.map_err(text)?;
    for number in 0..COUNT {
        drop(transport.start_send(next, TAG, content(rank, next, number, 8)).map_err(text)?);
    }
    for number in (0..COUNT).rev() {
        let mut receive = receives.pop().expect("one request per message");
        if number % 2 == 0 {
            while !receive.poll().map_err(text)? {
                std::thread::yield_now();
            }
        }
        let expected = content(previous, rank, number, 8);
        expect_message(&format!("message {number}"), &receive.wait().map_err(text)?, &expected)?;
    }
    Ok(())
}

fn check_random_order(transport: &Transport) -> Result<(), String> {
    const TAGS: usize = 5;
    const MESSAGES_PER_TAG: usize = 30;
    let (rank, size) = (transport.rank(), transport.size());
    let tag = |number: usize| Tag::new(100 + (number % TAGS) as u16);
    let length = |number: usize| (mix(number as u64) % 100) as usize;
    let count = TAGS * MESSAGES_PER_TAG;
    // The order of tags and ranks is random. Messages of one tag keep their order.
    let order = |seed: u64| {
        let mut list: Vec<(usize, usize)> =
            (0..size).flat_map(|other| (0..count).map(move |number| (other, number % TAGS))).collect();
        shuffle(&mut list, mix(seed));
        let mut used = vec![0; size * TAGS];
        for (other, number) in &mut list {
            let queue = &mut used[*other * TAGS + *number];
            *number += *queue * TAGS;
            *queue += 1;
        }
        list
    };
    let sends: Vec<_> = order(rank as u64)
        .into_iter()
        .map(|(to, number)| (to, number, content(rank, to, number, length(number))))
        .collect();
    let mut receives: Vec<_> = order(1000 + rank as u64)
        .into_iter()
        .map(|(from, number)| (from, number, vec![0; length(number)]))
        .collect();
    let exchange = transport.exchange(|exchange| {
        let mut receives = receives.iter_mut();
        for (to, number, message) in &sends {
            exchange.send(*to, tag(*number), message)?;
            if let Some((from, number, buffer)) = receives.next() {
                exchange.receive(*from, tag(*number), buffer)?;
            }
            exchange.poll()?;
        }
        Ok(())
    });
    exchange.map_err(text)?;
    for (from, number, received) in &receives {
        let expected = content(*from, rank, *number, length(*number));
        expect_message(&format!("message {number} from rank {from}"), received, &expected)?;
    }
    Ok(())
}

/// Lengths around the chunks of 1000 bytes with which the tests run MPI.
fn check_lengths(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for length in [0, 1, 2, 999, 1000, 1001, 1999, 2000, 2001, 5000, 65_536, 100_003] {
        let sent = content(rank, next, length, length);
        let expected = content(previous, rank, length, length);
        let mut received = vec![0; length];
        let exchange = transport.exchange(|exchange| {
            exchange.receive(previous, TAG, &mut received)?;
            exchange.send(next, TAG, &sent)
        });
        exchange.map_err(text)?;
        expect_message("known length", &received, &expected)?;
        let request = transport.start_send(next, TAG, sent).map_err(text)?;
        expect_message("any length", &transport.receive(previous, TAG).map_err(text)?, &expected)?;
        request.wait().map_err(text)?;
    }
    Ok(())
}

/// Messages that are longer than the buffers of a library, in both directions at the same time,
/// with work between start and end.
fn check_long_messages(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    const COUNT: usize = 1 << 18;
    let value = |from: usize, index: usize| (mix(from as u64) as f64) + index as f64;
    let sent: Vec<f64> = (0..COUNT).map(|index| value(rank, index)).collect();
    let mut received = vec![vec![0f64; COUNT]; size];
    let exchange = transport.exchange(|exchange| {
        for (from, buffer) in received.iter_mut().enumerate() {
            exchange.receive(from, TAG, buffer)?;
        }
        (0..size).try_for_each(|to| exchange.send(to, TAG, &sent))?;
        exchange.poll()
    });
    exchange.map_err(text)?;
    for (from, buffer) in received.iter().enumerate() {
        let wrong = (0..COUNT).find(|&index| buffer[index].to_bits() != value(from, index).to_bits());
        expect_equal(&format!("first wrong value from rank {from}"), wrong, None)?;
    }
    Ok(())
}

/// A message with another length is an error of the receiver, and later messages are not affected.
fn check_wrong_length(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    // Open MPI truncates longer messages to the own rank without an error.
    let cases = [(3, 8), (0, 1), (8, 3), (1, 0)];
    for (sent, expected) in cases.into_iter().take(if size == 1 { 2 } else { 4 }) {
        let request = transport.start_receive(previous, TAG, expected).map_err(text)?;
        drop(transport.start_send(next, TAG, content(rank, next, 0, sent)).map_err(text)?);
        if request.wait().is_ok() {
            return Err(format!("{sent} bytes were accepted, expected {expected}"));
        }
    }
    let request = transport.start_receive(previous, TAG, 5).map_err(text)?;
    drop(transport.start_send(next, TAG, content(rank, next, 1, 5)).map_err(text)?);
    expect_message("message after errors", &request.wait().map_err(text)?, &content(previous, rank, 1, 5))
}

/// A message is found without being received, and a missing one is not waited for.
fn check_limited_wait(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let is_there = |limit| transport.wait_for_message(previous, TAG, limit).map_err(text);
    expect_equal("before the send", is_there(Duration::ZERO)?, false)?;
    expect_equal("after a limit", is_there(Duration::from_millis(2))?, false)?;
    transport.barrier().map_err(text)?;
    drop(transport.start_send(next, TAG, content(rank, next, 0, 100)).map_err(text)?);
    // The limit is reached only if the message is lost.
    expect_equal("after the send", is_there(Duration::from_secs(30))?, true)?;
    expect_equal("a second time", is_there(Duration::ZERO)?, true)?;
    let message = transport.receive(previous, TAG).map_err(text)?;
    expect_message("message", &message, &content(previous, rank, 0, 100))?;
    expect_equal("after the receive", is_there(Duration::ZERO)?, false)
}

/// A send whose request was dropped arrives, also if it is long.
fn check_dropped_requests(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    const LENGTH: usize = 1 << 20;
    for number in 0..3 {
        drop(transport.start_send(next, TAG, content(rank, next, number, LENGTH)).map_err(text)?);
    }
    for number in 0..3 {
        let message = transport.receive(previous, TAG).map_err(text)?;
        expect_message("message", &message, &content(previous, rank, number, LENGTH))?;
    }
    Ok(())
}

/// Nobody leaves a barrier before the last rank has entered it. The clocks of different computers
/// are not compared.
fn check_barrier(transport: &Transport) -> Result<(), String> {
    let now =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let is_local = u8::from(transport.local_rank() == transport.rank());
    let all_local = transport.all_reduce(&[is_local], u8::min).map_err(text)? == [1];
    for late in 0..transport.size() {
        if transport.rank() == late {
            std::thread::sleep(Duration::from_millis(5));
        }
        let entered = now();
        transport.barrier().map_err(text)?;
        let left = now();
        let last_entered = transport.all_reduce(&[entered], u64::max).map_err(text)?[0];
        if all_local && left < last_entered {
            return Err(format!("left {} ns before rank {late} entered", last_entered - left));
        }
    }
    Ok(())
}

fn check_broadcast(transport: &Transport) -> Result<(), String> {
    for root in 0..transport.size() {
        for length in [0, 1, 3, 1000, 50_000] {
            let expected: Vec<i64> =
                (0..length).map(|i| mix((root * 7 + length + i) as u64) as i64).collect();
            let values = if transport.rank() == root { expected.clone() } else { Vec::new() };
            let found = transport.broadcast(root, values).map_err(text)?;
            expect_equal(&format!("{length} values of rank {root}"), found == expected, true)?;
        }
    }
    Ok(())
}

/// Values of a rank, whose number differs from rank to rank. Some ranks have none.
fn values_of(rank: usize, scale: usize) -> Vec<u64> {
    (0..(rank * rank + 2 * rank) % 5 * scale).map(|index| mix((rank * 1000 + index) as u64)).collect()
}

fn check_gather(transport: &Transport) -> Result<(), String> {
    let size = transport.size();
    for root in 0..size {
        for scale in [1, 5000] {
            let found = transport.gather(root, &values_of(transport.rank(), scale)).map_err(text)?;
            let expected = (0..size).map(|rank| values_of(rank, scale)).collect();
            let expected = (transport.rank() == root).then_some(expected);
            expect_equal(&format!("parts at rank {root} are correct"), found == expected, true)?;
        }
    }
    Ok(())
}

fn check_all_gather(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    // Short and long operations have different algorithms.
    for scale in [0, 1, 5000] {
        let found = transport.all_gather(&values_of(rank, scale)).map_err(text)?;
        let expected: Vec<_> = (0..size).map(|rank| values_of(rank, scale)).collect();
        expect_equal(&format!("parts of scale {scale} are correct"), found == expected, true)?;
        let mut all = expected.concat();
        let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
        let start: usize = lengths[..rank].iter().sum();
        all[..start].fill(0);
        all[start + lengths[rank]..].fill(0);
        transport.all_gather_in_place(&mut all, &lengths).map_err(text)?;
        expect_equal("parts in place are correct", all == expected.concat(), true)?;
    }
    Ok(())
}

/// Sums of numbers of very different size depend on the order.
fn check_reduction(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    for length in [0, 1, 5, 40_000] {
        let value = |rank: usize, index: usize| {
            let bits = mix((rank * 100_003 + index) as u64);
            let mantissa = (bits >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
            mantissa * 2f64.powi((bits % 60) as i32)
        };
        let values: Vec<f64> = (0..length).map(|index| value(rank, index)).collect();
        let sum = |index: usize| (1..size).fold(value(0, index), |sum, rank| sum + value(rank, index));
        let expected: Vec<u64> = (0..length).map(|index| sum(index).to_bits()).collect();
        let bits = |sums: &[f64]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
        let found = transport.all_reduce(&values, |a, b| a + b).map_err(text)?;
        expect_equal(&format!("bits of {length} sums are correct"), bits(&found) == expected, true)?;
        for root in 0..size {
            let found = transport.reduce(root, &values, |a, b| a + b).map_err(text)?;
            let expected = (rank == root).then(|| expected.clone());
            let is_correct = found.map(|sums| bits(&sums)) == expected;
            expect_equal(&format!("bits of {length} sums at rank {root} are correct"), is_correct, true)?;
        }
    }
    // Neither commutative nor associative: a digit per rank.
    let digits = transport.all_reduce(&[rank as u64 + 1], |a, b| a * 10 + b).map_err(text)?;
    expect_equal("digits", digits, vec![(1..=size as u64).fold(0, |number, digit| number * 10 + digit)])
}

/// Each group computes while the ranks outside it wait for the next one or for the barrier.
fn check_first_ranks(transport: &Transport) -> Result<(), String> {
    let (rank, size) = (transport.rank(), transport.size());
    for count in (1..=size).chain((1..size).rev()) {
        let Some(group) = transport.first_ranks(count) else {
            expect_equal("ranks outside the group", rank >= count, true)?;
            continue;
        };
        expect_equal("rank and size", (group.rank(), group.size()), (rank, count))?;
        group.barrier().map_err(text)?;
        let parts = group.all_gather(&values_of(rank, 1)).map_err(text)?;
        let expected: Vec<_> = (0..count).map(|rank| values_of(rank, 1)).collect();
        expect_equal(&format!("parts of {count} ranks are correct"), parts == expected, true)?;
        let root = count - 1;
        let values = group.broadcast(root, values_of(rank, 5000)).map_err(text)?;
        expect_equal("values of the last rank arrive", values == values_of(root, 5000), true)?;
        let outside = ClusterError::Rank { rank: count, size: count };
        expect_equal("rank outside the group", group.receive(count, TAG), Err(outside))?;
    }
    Ok(())
}

fn check_missing_rank(transport: &Transport) -> Result<(), String> {
    let size = transport.size();
    let expected = ClusterError::Rank { rank: size, size };
    let send = transport.start_send(size, TAG, Vec::new()).map(|_| ());
    expect_equal("send", send, Err(expected.clone()))?;
    let exchange: Result<(), _> = transport.exchange(|exchange| exchange.send(size, TAG, &[0u8]));
    expect_equal("exchange", exchange, Err(expected.clone()))?;
    expect_equal("receive", transport.receive(size, TAG), Err(expected.clone()))?;
    expect_equal("broadcast", transport.broadcast(size, vec![0u8]), Err(expected))
}

fn check_counters(transport: &Transport) -> Result<(), String> {
    let rank = transport.rank();
    let before = transport.traffic();
    let request = transport.start_send(rank, TAG, vec![1; 100]).map_err(text)?;
    transport.receive(rank, TAG).map_err(text)?;
    request.wait().map_err(text)?;
    let traffic = transport.traffic().since(&before);
    let counts =
        (traffic.messages_sent, traffic.bytes_sent, traffic.messages_received, traffic.bytes_received);
    expect_equal("counts", counts, (1, 100, 1, 100))?;
    expect_equal("communication takes time", traffic.communication > Duration::ZERO, true)
}
