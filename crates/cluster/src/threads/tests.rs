use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orrery_device::testing::test_devices;

use super::*;
use crate::conformance;
use crate::counters::Traffic;

const TAG: Tag = Tag::new(3);

#[test]
fn threads_pass_the_conformance_suite() {
    for size in [1, 2, 3, 4, 7] {
        let result = run(size, |transport| {
            assert_eq!((transport.size(), transport.local_rank()), (size, transport.rank()));
            conformance::check_all(transport).map_err(|message| transport.abort(&message))
        });
        assert_eq!(result.map(|done| done.len()), Ok(size));
    }
}

/// The message is moved, so its pages need no memory.
#[test]
fn messages_above_2_gib_arrive() {
    let result = run(2, |transport| {
        conformance::check_huge_message(transport).map_err(|message| transport.abort(&message))
    });
    assert_eq!(result, Ok(vec![(), ()]));
}

/// Threads pass handles of buffers instead, see [`Transport::send_value`].
#[test]
fn threads_do_not_accept_device_memory() {
    let devices = test_devices();
    let result = run(2, |transport| {
        let device = devices.first().cloned();
        let check = |device| conformance::check_device_memory(transport, &device);
        device.map_or(Ok(()), check).map_err(|message| transport.abort(&message))
    });
    assert_eq!(result, Ok(vec![(), ()]));
}

#[test]
fn results_are_in_the_order_of_ranks() {
    let ranks = run(4, |transport| Ok::<_, ClusterError>(transport.rank())).unwrap();
    assert_eq!(ranks, [0, 1, 2, 3]);
}

/// Error of a member, as the engine has one.
#[derive(Debug, PartialEq)]
enum MemberError {
    DiskFull,
    Cluster(ClusterError),
}

impl Display for MemberError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DiskFull => f.write_str("disk full"),
            Self::Cluster(error) => error.fmt(f),
        }
    }
}

impl From<ClusterError> for MemberError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error)
    }
}

#[test]
fn an_error_ends_all_waiting_members_and_is_returned_once() {
    let ended = AtomicUsize::new(0);
    let result = run(4, |transport| {
        if transport.rank() == 2 {
            // The others wait by now, or find the abort when they start to wait.
            std::thread::sleep(Duration::from_millis(20));
            return Err(MemberError::DiskFull);
        }
        let error = match transport.rank() {
            0 => transport.barrier().unwrap_err(),
            1 => transport.receive(2, TAG).unwrap_err(),
            _ => transport.start_receive(2, TAG, 1).unwrap().wait().unwrap_err(),
        };
        let expected = ClusterError::Aborted { rank: 2, message: "disk full".to_owned() };
        assert_eq!(error, expected);
        // Later calls fail as well.
        assert_eq!(transport.send_value(2, TAG, ()), Err(expected));
        ended.fetch_add(1, Ordering::SeqCst);
        Err::<(), _>(error.into())
    });
    assert_eq!(result, Err(MemberError::DiskFull));
    assert_eq!(ended.into_inner(), 3);
}

#[test]
fn a_panic_ends_all_members() {
    let caught = catch_unwind(|| {
        run(3, |transport| {
            if transport.rank() == 1 {
                resume_unwind(Box::new("planned"));
            }
            let error = transport.barrier().unwrap_err();
            let message = "panicked: planned".to_owned();
            assert_eq!(error, ClusterError::Aborted { rank: 1, message });
            Err::<(), _>(error)
        })
    });
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"planned"));
}

#[test]
fn an_explicit_abort_is_the_error_of_the_group() {
    let result = run(2, |transport| match transport.rank() {
        0 => Err(transport.abort("stop")),
        _ => transport.receive(0, TAG).map(|_| ()),
    });
    assert_eq!(result, Err(ClusterError::Aborted { rank: 0, message: "stop".to_owned() }));
}

#[test]
fn values_of_any_type_move_between_threads() {
    let sums = run(2, |transport| {
        let other = 1 - transport.rank();
        let shared = Arc::new(Mutex::new(0));
        transport.send_value(other, TAG, Arc::clone(&shared))?;
        let theirs: Arc<Mutex<i32>> = transport.receive_value(other, TAG)?;
        *theirs.lock().unwrap() = 1 + transport.rank() as i32;
        transport.barrier()?;
        let sum = *shared.lock().unwrap();
        transport.send_value(other, TAG, "text")?;
        let wrong = transport.receive_value::<u8>(other, TAG);
        assert_eq!(wrong, Err(ClusterError::Type { from: other, tag: TAG, expected: "u8" }));
        Ok::<_, ClusterError>(sum)
    });
    assert_eq!(sums, Ok(vec![2, 1]));
}

#[test]
fn sent_vectors_are_not_copied() {
    let result = run(2, |transport| {
        if transport.rank() == 0 {
            let message = vec![5u8; 1000];
            transport.send_value(1, TAG, message.as_ptr() as usize)?;
            transport.start_send(1, TAG, message)?.wait()
        } else {
            let address: usize = transport.receive_value(0, TAG)?;
            let received = transport.receive(0, TAG)?;
            assert_eq!(received.as_ptr() as usize, address);
            Ok::<_, ClusterError>(())
        }
    });
    assert!(result.is_ok());
}

#[test]
fn a_receive_that_was_dropped_takes_its_message_with_it() {
    let result = run(1, |transport| {
        drop(transport.start_receive(0, TAG, 1)?);
        transport.start_send(0, TAG, vec![1])?.wait()?;
        transport.start_send(0, TAG, vec![2])?.wait()?;
        let dropped = transport.start_receive(0, TAG, 1)?;
        let kept = transport.start_receive(0, TAG, 1)?;
        drop(dropped);
        transport.start_send(0, TAG, vec![3])?.wait()?;
        // An exchange that fails gives its receives up.
        let mut buffer = [0u8];
        let failed: Result<(), _> = transport.exchange(|exchange| {
            exchange.receive(0, TAG, &mut buffer)?;
            exchange.send(9, TAG, &[0u8])
        });
        assert!(failed.is_err());
        transport.start_send(0, TAG, vec![4])?.wait()?;
        transport.start_send(0, TAG, vec![5])?.wait()?;
        Ok::<_, ClusterError>((kept.wait()?, transport.receive(0, TAG)?))
    });
    assert_eq!(result, Ok(vec![(vec![3], vec![5])]));
}

#[test]
fn waiting_is_counted_apart_from_communication() {
    let traffic_after = |delay: Duration| {
        let traffic = run(2, |transport| {
            if transport.rank() == 1 {
                std::thread::sleep(delay);
            }
            transport.barrier()?;
            Ok::<_, ClusterError>(transport.traffic())
        });
        traffic.unwrap().swap_remove(0)
    };
    assert_eq!(traffic_after(Duration::ZERO).messages_sent, 1);
    // On a busy machine rank 0 may start late. Longer delays are tried then.
    let mut delays = (0..9).map(|doublings| Duration::from_millis(20 << doublings));
    let is_waiting = |traffic: Traffic| traffic.waiting > traffic.communication;
    assert!(delays.any(|delay| is_waiting(traffic_after(delay))), "waiting is counted as communication");
}
