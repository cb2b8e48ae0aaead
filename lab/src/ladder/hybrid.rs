//! Ladder of hybrid execution: one direct sum of gravity, shared by the CPU and a device.

use orrery_device::{Device, DeviceError};
use orrery_gravity::solver::direct::device::{Columns, DeviceTargetSum};
use orrery_gravity::solver::direct::forces;
use orrery_measure::format::{format_number, format_percent, format_seconds};
use orrery_measure::sample::ReferenceForces;
use orrery_measure::timing::{Times, largest_affordable_size, time_on_host};
use orrery_measure::workload::Workload;
use orrery_measure::{FLOPS_PER_PAIR, MeasureError};
use orrery_model::{Precision, Vec3s};

use super::gravity::{BYTES_PER_BODY, ERROR_REMARK};
use super::repeats::{
    build_thread_pool, max_run_seconds, repeat_count, time_rung_on_cpu, time_rung_on_device,
    time_waiting_rung,
};
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roofs, RungResult, Sweep, SweepScale,
    SweepSeries, TimedRuns, Timeline, Work,
};
use crate::experiments::hybrid::{
    CopyMode, DeviceAlone, HybridSum, LANE_NAMES, MeasuredSum, cpu_strategy, cpu_target_count,
    device_strategy, find_share,
};
use crate::experiments::transfer::clock::SpanRecorder;
use crate::rungs::gravity::ThreadCount;

pub static LADDER: LadderEntry = LadderEntry {
    name: "hybrid",
    description: "One direct sum of gravity, shared by the CPU and a device",
    title: "all-pairs gravity, shared",
    size_unit: "bodies",
    host_bytes: |n| (n as u64).saturating_mul(BYTES_PER_BODY),
    sizes: DefaultSizes { gpu: 65_536, opencl_cpu: 4096, host: 16_384 },
    counted: Counted {
        item: "pair",
        rate_unit: "interactions/s",
        heading: "Gpair/s",
        to_column: |rate| rate / 1e9,
    },
    rungs: &[],
    measure,
};

/// Share of the CPU in the course's argument.
const COURSE_SHARE: f64 = 0.1;
/// Shares of the CPU of the sweep, in percent.
const SWEPT_PERCENT: [f64; 12] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0];
/// Number of timed runs of each point of the sweep, after one that is not timed.
const SWEEP_REPEATS: usize = 3;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    ladder.remarks = vec![ERROR_REMARK.to_owned()];
    ladder.roof = ladder.host_roofs.peak_roof();
    (request.progress)("CPU, one thread");
    add_one_thread(n, ladder)?;
    let workload = Workload::for_direct(n);
    let mut measurement = HybridMeasurement {
        reference: ReferenceForces::compute(&workload.problem()),
        workload: &workload,
        request,
        ladder,
    };
    let cpu_seconds = measurement.add_all_cores();
    let Some(device) = measurement.request.device else { return Ok(()) };
    if !device.properties().has_f64 {
        measurement.ladder.remarks.push("This device has no f64, which the direct sum needs.".to_owned());
        return Ok(());
    }
    measurement.ladder.roofs = Roofs::of_device(device)?;
    measurement.ladder.roof = measurement.ladder.roofs.peak_roof();
    measurement.add_device_rungs(device, cpu_seconds)
}

/// Adds the rung of one thread, with fewer bodies if it takes long.
fn add_one_thread(n: usize, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let pool = build_thread_pool(ThreadCount::One)?;
    let time_runs = |workload: &Workload, repeats| {
        let mut found = Vec3s::default();
        let run = || found = forces(&workload.problem(), &cpu_strategy()).acceleration;
        (pool.install(|| time_on_host(repeats, run)), found)
    };
    let time_size = |n| Ok::<_, MeasureError>(time_runs(&Workload::for_direct(n), 1).0.median());
    let (n, run_seconds) = largest_affordable_size(n, max_run_seconds(), time_size)?;
    let workload = Workload::for_direct(n);
    let (times, found) = time_runs(&workload, repeat_count(run_seconds));
    let reference = ReferenceForces::compute(&workload.problem());
    let peak = ladder.host_roofs.flops;
    ladder.add_rung(new_rung("CPU, one thread", n, times, peak, &reference, &found));
    Ok(())
}

/// Returns the result of a rung. `peak` is the peak of all devices that take part, in flop/s.
fn new_rung(
    name: &str,
    n: usize,
    times: Times,
    peak: Option<f64>,
    reference: &ReferenceForces,
    found: &Vec3s,
) -> RungResult {
    let runs = TimedRuns { n, items: (n as f64).powi(2), times };
    RungResult {
        work: Work { flops: Some(FLOPS_PER_PAIR), bytes: None },
        roof: peak.map(|peak| peak / FLOPS_PER_PAIR),
        error: (n > 1).then(|| reference.errors(found).median),
        ..RungResult::new(name, &runs)
    }
}

struct HybridMeasurement<'a, 'b> {
    workload: &'a Workload,
    reference: ReferenceForces,
    request: &'a mut LadderRequest<'b>,
    ladder: &'a mut Ladder,
}

/// Times of the CPU alone and of the device alone, in seconds.
#[derive(Clone, Copy)]
struct AloneTimes {
    cpu: f64,
    device: f64,
}

impl AloneTimes {
    /// Returns the time of a sum whose copies cost nothing, for a share of the CPU.
    fn shared(&self, share: f64) -> f64 {
        (share * self.cpu).max((1.0 - share) * self.device)
    }

    /// Returns the share for which both finish at once.
    fn best_share(&self) -> f64 {
        self.device / (self.cpu + self.device)
    }
}

impl HybridMeasurement<'_, '_> {
    fn n(&self) -> usize {
        self.request.n
    }

    fn add(&mut self, name: &str, note: String, times: Times, peak: Option<f64>, found: &Vec3s) {
        let rung = new_rung(name, self.n(), times, peak, &self.reference, found);
        self.ladder.add_rung(RungResult { note, ..rung });
    }

    /// Adds the rung of all cores and returns its time.
    fn add_all_cores(&mut self) -> f64 {
        let name = "CPU, all cores";
        (self.request.progress)(name);
        let problem = self.workload.problem();
        let mut found = Vec3s::default();
        let times = time_rung_on_cpu(|| found = forces(&problem, &cpu_strategy()).acceleration);
        let seconds = times.median();
        self.add(name, String::new(), times, self.ladder.host_roofs.flops, &found);
        seconds
    }

    fn add_device_rungs(&mut self, device: &Device, cpu_seconds: f64) -> Result<(), MeasureError> {
        let kernel_seconds = self.add_kernel(device)?;
        let (name, peak) = ("device alone, with copies", self.device_peak());
        (self.request.progress)(name);
        let (device_seconds, times, found) = self.time_share(device, 0.0, CopyMode::Waiting)?;
        let copies = (device_seconds - kernel_seconds).max(0.0);
        let share = format_percent(Some(copies / device_seconds));
        let note = format!("positions in, accelerations out: {} ({share})", format_seconds(copies));
        self.add(name, note, times, peak, &found);
        let alone = AloneTimes { cpu: cpu_seconds, device: device_seconds };

        let name = "10% on the CPU";
        (self.request.progress)(name);
        let (seconds, times, found) = self.time_share(device, COURSE_SHARE, CopyMode::Waiting)?;
        let note = describe_share(COURSE_SHARE, device_seconds / seconds);
        self.add(name, note, times, self.peak_of_both(), &found);
        for (name, copies) in
            [("measured share on the CPU", CopyMode::Waiting), ("copies overlapped", CopyMode::Overlapped)]
        {
            (self.request.progress)(name);
            let share = self.find_share(device, alone, copies)?;
            let (seconds, times, found) = self.time_share(device, share, copies)?;
            self.add(
                name,
                describe_share(share, device_seconds / seconds),
                times,
                self.peak_of_both(),
                &found,
            );
            self.draw(device, name, share, copies)?;
        }
        self.add_fastest(device)?;
        self.sweep_shares(device, AloneTimes { device: kernel_seconds, ..alone })
    }

    /// Returns the peak of the device in f32.
    fn device_peak(&self) -> Option<f64> {
        self.ladder.roofs.peak_flops(Precision::Single)
    }

    /// Returns the sum of the peaks of the CPU and the device.
    fn peak_of_both(&self) -> Option<f64> {
        Some(self.device_peak()? + self.ladder.host_roofs.flops?)
    }

    /// Adds the rung of the kernel without copies and returns its time.
    fn add_kernel(&mut self, device: &Device) -> Result<f64, MeasureError> {
        let name = "device alone, no copies";
        (self.request.progress)(name);
        let problem = self.workload.problem();
        let (mass, n, strategy) = (device.upload(problem.mass)?, self.n(), device_strategy(device));
        let upload = |column: &Vec<f64>| device.upload(column);
        let [x, y, z] = [&problem.position.x, &problem.position.y, &problem.position.z].map(upload);
        let position = [x?, y?, z?];
        let acceleration = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
        let [from, to] = [&position, &acceleration].map(|[x, y, z]| Columns { x, y, z });
        let mut sum = DeviceTargetSum::new(device, problem.mass, 0..n, &strategy)?;
        let times =
            time_rung_on_device(device, || sum.queue_forces(from, &mass, problem.g, problem.eps, to))?;
        let seconds = times.median();
        let [x, y, z] = acceleration.each_ref().map(|column| column.to_vec());
        let found = Vec3s { x: x?, y: y?, z: z? };
        self.add(name, strategy.describe(), times, self.device_peak(), &found);
        Ok(seconds)
    }

    /// Adds the rung of the fastest kernel of the device.
    fn add_fastest(&mut self, device: &Device) -> Result<(), MeasureError> {
        let name = "device alone, fastest kernel";
        (self.request.progress)(name);
        let mut alone = DeviceAlone::new(device, self.workload.problem())?;
        let times = time_waiting_rung(|| alone.run())?;
        let note = format!("with copies, page-locked memory; {}", alone.describe());
        self.add(name, note, times, self.device_peak(), &alone.accelerations());
        Ok(())
    }

    /// Measures a shared sum. Returns its median time, all times and the accelerations.
    fn time_share(
        &self,
        device: &Device,
        share: f64,
        copies: CopyMode,
    ) -> Result<(f64, Times, Vec3s), DeviceError> {
        let mut sum = self.new_sum(device, share, copies)?;
        let times = time_waiting_rung(|| sum.run(&mut SpanRecorder::default()).map(drop))?;
        Ok((times.median(), times, sum.accelerations()))
    }

    fn new_sum<'c>(
        &'c self,
        device: &'c Device,
        share: f64,
        copies: CopyMode,
    ) -> Result<HybridSum<'c>, DeviceError> {
        HybridSum::new(device, self.workload.problem(), cpu_target_count(self.n(), share), copies)
    }

    /// Finds the share of the CPU with the shortest time, starting from the times of both alone.
    fn find_share(&self, device: &Device, alone: AloneTimes, copies: CopyMode) -> Result<f64, DeviceError> {
        find_share(self.n(), alone.best_share(), |share| {
            let mut sum = self.new_sum(device, share, copies)?;
            let mut parts = sum.run(&mut SpanRecorder::default())?;
            let run = || {
                parts = sum.run(&mut SpanRecorder::default())?;
                Ok::<_, DeviceError>(())
            };
            let seconds = time_waiting_rung(run)?.median();
            Ok(MeasuredSum { seconds, parts })
        })
    }

    /// Draws the time line of one run.
    fn draw(&mut self, device: &Device, name: &str, share: f64, copies: CopyMode) -> Result<(), DeviceError> {
        let lanes = {
            let mut sum = self.new_sum(device, share, copies)?;
            sum.run(&mut SpanRecorder::default())?;
            let mut recorder = SpanRecorder::new(device.queue())?;
            sum.run(&mut recorder)?;
            recorder.into_lanes(&LANE_NAMES.map(str::to_owned))?
        };
        self.ladder.timelines.push(Timeline { title: name.to_owned(), lanes });
        Ok(())
    }

    /// Measures the rate over the share of the CPU, next to that of a sum without copies.
    fn sweep_shares(&mut self, device: &Device, alone: AloneTimes) -> Result<(), MeasureError> {
        let gigapairs = (self.n() as f64).powi(2) / 1e9;
        let mut series = Vec::new();
        for (name, copies) in [("waiting", CopyMode::Waiting), ("overlapped", CopyMode::Overlapped)] {
            let mut points = Vec::new();
            for percent in SWEPT_PERCENT {
                (self.request.progress)(&format!("{name}, {percent}% on the CPU"));
                let mut sum = self.new_sum(device, percent / 100.0, copies)?;
                let mut fastest = f64::INFINITY;
                for repeat in 0..=SWEEP_REPEATS {
                    let start = std::time::Instant::now();
                    sum.run(&mut SpanRecorder::default())?;
                    if repeat > 0 {
                        fastest = fastest.min(start.elapsed().as_secs_f64());
                    }
                }
                points.push(Some(gigapairs / fastest));
            }
            series.push(SweepSeries { name: name.to_owned(), points });
        }
        let expected = SWEPT_PERCENT.map(|percent| Some(gigapairs / alone.shared(percent / 100.0)));
        series.push(SweepSeries { name: "without copies".to_owned(), points: expected.to_vec() });
        self.ladder.sweeps.push(Sweep {
            title: "rate by the CPU's share".to_owned(),
            parameter: "percent",
            unit: "Gpair/s",
            x_scale: SweepScale::Linear,
            y_scale: SweepScale::Log,
            values: SWEPT_PERCENT.to_vec(),
            series,
        });
        Ok(())
    }
}

/// Describes the share of the CPU and the gain over the device alone with copies.
fn describe_share(share: f64, gain: f64) -> String {
    let share = format_percent(Some(share));
    format!("{share} of the targets on the CPU; {} times the device alone with copies", format_number(gain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_share_makes_both_finish_at_once() {
        let alone = AloneTimes { cpu: 10.0, device: 1.0 };
        let share = alone.best_share();
        assert!((share - 1.0 / 11.0).abs() < 1e-15);
        // The course: a device that is ten times as fast gains 10%.
        assert!((alone.device / alone.shared(share) - 1.1).abs() < 1e-12);
        assert!(
            alone.shared(0.9 * share) > alone.shared(share)
                && alone.shared(1.1 * share) > alone.shared(share)
        );
        assert_eq!((alone.shared(0.0), alone.shared(1.0)), (1.0, 10.0));
    }
}
