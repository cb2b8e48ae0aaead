//! Tests that run as MPI processes. The tests of `mpi` start them.

use std::time::Duration;

use orrery_cluster::process::{self, MpiOptions};
use orrery_cluster::{ClusterError, Tag, Transport, conformance};
use orrery_device::testing::test_devices;

use crate::common::is_loaded;

const TAG: Tag = Tag::new(1);

/// Runs `body` as `main` of a program does.
fn run_process(body: impl FnOnce(&Transport) -> Result<(), String>) {
    let chunk_bytes = std::env::var("TEST_CHUNK_BYTES").ok().map(|text| text.parse().unwrap());
    let result = process::run(
        MpiOptions { chunk_bytes },
        |_: &Failure| 7,
        |transport| body(transport).map_err(Failure),
    );
    if let Err(Failure(message)) = result {
        eprintln!("error: {message}");
        std::process::exit(2);
    }
}

struct Failure(String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Self(error.to_string())
    }
}

/// Waits longer than a failure of another rank may take.
fn compute_long() -> Result<(), String> {
    std::thread::sleep(Duration::from_secs(50));
    Err("was not ended".to_owned())
}

/// Rank 0 sends a message of more than 2^31 bytes. Its pages are zero and need no memory, except
/// those with a number.
#[test]
#[ignore = "runs as a child"]
fn huge_message() {
    run_process(|transport| {
        conformance::check_huge_message(transport)?;
        println!("passed: {transport:?}");
        Ok(())
    });
}

#[test]
#[ignore = "runs as a child"]
fn conformance() {
    run_process(|transport| {
        conformance::check_all(transport)?;
        let error = transport.send_value(0, TAG, ()).unwrap_err();
        assert_eq!(error, ClusterError::SeparateMemory);
        assert_eq!(transport.local_rank(), transport.rank());
        if let Some(device) = test_devices().first() {
            conformance::check_device_memory(transport, device)?;
        }
        println!("passed: {transport:?}, cuda aware: {}", transport.is_cuda_aware());
        Ok(())
    });
}

#[test]
#[ignore = "runs as a child"]
fn error_on_one_rank() {
    run_process(|transport| match transport.rank() {
        0 => transport.barrier().map_err(|error| error.to_string()),
        1 => Err("planned error".to_owned()),
        _ => compute_long(),
    });
}

#[test]
#[ignore = "runs as a child"]
fn error_on_all_ranks() {
    run_process(|_| Err("planned error".to_owned()));
}

#[test]
#[ignore = "runs as a child"]
fn panic_during_exchange() {
    run_process(|transport| {
        if transport.rank() != 1 {
            return compute_long();
        }
        // Nobody sends this message, so MPI must not return to the owner of the buffer.
        let mut buffer = [0u8; 8];
        transport
            .exchange(|exchange| {
                exchange.receive(0, TAG, &mut buffer)?;
                panic!("planned panic");
            })
            .map_err(|error: ClusterError| error.to_string())
    });
}

#[test]
#[ignore = "runs as a child"]
fn print_transport() {
    run_process(|transport| {
        println!("{transport:?}, mpi loaded: {}", is_loaded("libmpi"));
        Ok(())
    });
}
