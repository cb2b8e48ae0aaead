//! Division of launches of the heat kernel into strips and chunks.

use std::ops::Range;

use orrery_fields::heat::device::{HeatDeviceStrategy, HeatSchedule};

/// Returns strip and rows of each warp, as `find_chunk` in heat.cu computes them.
fn warp_chunks(schedule: &HeatSchedule, warps: u64, rows: u64) -> Vec<(u64, Range<u64>)> {
    let chunk = |strip: u64, chunk: u64, chunk_rows: u64| {
        let begin = (chunk * chunk_rows).min(rows);
        (strip, begin..(begin + chunk_rows).min(rows))
    };
    let blocks_per_row = (schedule.east_strip - 1).div_ceil(warps);
    let warp_chunk = |index: u64| match index / warps {
        block if block < schedule.edge_blocks => {
            let edge_strips = 1 + schedule.strips - schedule.east_strip;
            let strip = match index % edge_strips {
                0 => 0,
                k => schedule.east_strip + k - 1,
            };
            Some(chunk(strip, index / edge_strips, schedule.edge_chunk_rows))
        }
        block => {
            let block = block - schedule.edge_blocks;
            let strip = 1 + block % blocks_per_row * warps + index % warps;
            (strip < schedule.east_strip).then(|| chunk(strip, block / blocks_per_row, schedule.chunk_rows))
        }
    };
    (0..schedule.blocks * warps).filter_map(warp_chunk).filter(|(_, rows)| !rows.is_empty()).collect()
}

#[test]
fn chunks_cover_every_strip_and_row_once() {
    for nx in [3, 119, 120, 121, 240, 359, 361, 1000, 16_384] {
        for rows in [1, 7, 33, 1000] {
            for (steps_per_pass, warps_per_block, waves, resident_blocks) in
                [(1, 1, 1, 8), (8, 4, 4, 400), (12, 8, 2, 50)]
            {
                let strategy = HeatDeviceStrategy {
                    steps_per_pass,
                    warps_per_block,
                    waves,
                    vectors_per_lane: 1,
                    rows_in_flight: 3,
                };
                let schedule = HeatSchedule::new(&strategy, steps_per_pass, [nx, rows], 4, resident_blocks);
                let mut covered = vec![0; (schedule.strips * rows) as usize];
                for (strip, chunk) in warp_chunks(&schedule, u64::from(warps_per_block), rows) {
                    chunk.for_each(|row| covered[(strip * rows + row) as usize] += 1);
                }
                assert!(covered.iter().all(|count| *count == 1), "{nx} {rows}: {schedule:?}");
                let (stored, loaded) = strategy.strip_columns(steps_per_pass, 4);
                let halo = (loaded - stored) / 2;
                for strip in 1..schedule.strips {
                    // The strip loads columns up to here, without this one.
                    let end = strip * stored + stored + halo;
                    assert_eq!(strip >= schedule.east_strip, end >= nx, "{nx}: {schedule:?}");
                }
            }
        }
    }
}
