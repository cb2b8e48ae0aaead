use super::*;

fn report(capability: (u32, u32), threads: u32, registers: u32, shared_bytes: u32) -> OccupancyReport {
    let limits = find_limits(capability).unwrap();
    let target = format!("compute capability {}", capability_name(capability));
    OccupancyReport::new(target, limits, BlockNeeds { threads, registers, shared_bytes }).unwrap()
}

#[test]
fn the_report_names_resources_limits_and_other_block_sizes() {
    let report = report((9, 0), 256, 64, 16_384);
    let lines = report.lines();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    for expected in [
        "compute capability 9.0",
        "  block          256 threads, 8 warps",
        "  registers      64 per thread, 16,384 allocated per block, 65,536 per SM",
        "  shared memory  16,384 bytes, 17,408 allocated per block, 233,472 per SM",
        "  blocks per SM  4",
        "  warps per SM   32 of 64",
        "  occupancy      50%",
        "  limited by     registers",
        "  threads             8",
        "  blocks             32",
        "  registers           4",
        "  shared memory      13",
        "  32           13     13        20%  shared memory",
        "  256*          4     32        50%      registers",
        "  1024          1     32        50%      registers",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected:?} in\n{}", lines.join("\n"));
    }
    let json = report.to_json();
    assert_eq!((json["capability"].as_str(), json["needs"]["threads"].as_u64()), (Some("9.0"), Some(256)));
    assert_eq!(json["occupancy"]["fraction"], 0.5);
    assert_eq!(json["occupancy"]["limited_by"], json!(["registers"]));
    assert_eq!(json["occupancy"]["blocks_by_resource"]["shared_memory"], 13);
    assert_eq!(json["block_sizes"].as_array().unwrap().len(), 32);
    let svg = report.plot().to_svg();
    assert!(svg.contains(">256 threads: 50%<") && svg.contains(">threads per block<"), "{svg}");
}

/// With 80 registers, a block of 832 threads is allocated 26 * 2,560 registers, which are too many.
#[test]
fn block_sizes_that_cannot_run_have_no_occupancy() {
    let report = report((9, 0), 256, 80, 0);
    let of_size = |threads| report.by_block_size.iter().find(|(size, _)| *size == threads).unwrap().1.clone();
    assert!(of_size(768).is_some() && of_size(832).is_none());
    let lines = report.lines();
    assert!(lines.iter().any(|line| line.starts_with("  832 ") && line.ends_with('-')), "{lines:#?}");
    assert!(report.to_json()["block_sizes"][25]["occupancy"].is_null());
    assert!(!report.plot().to_svg().contains("NaN"));
}

#[test]
fn an_unknown_compute_capability_is_refused_with_the_known_ones() {
    let message = find_limits((4, 2)).unwrap_err();
    assert!(message.starts_with("compute capability 4.2 is not in the table, expected one of 1.0, 1.1, "));
    assert!(message.ends_with("12.0, 12.1"), "{message}");
}
