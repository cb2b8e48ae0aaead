//! Ladder of histograms: the course's letters in 7 bins, 16-bit values in 65,536 bins and bytes in
//! 256 bins, each for random and for equal values.

use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, Element};
use orrery_measure::MeasureError;
use orrery_measure::format::{format_percent, format_thousands};
use orrery_measure::timing::{Times, time_on_device, time_once};
use rayon::prelude::*;

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, Roofs, RungResult, Scale, ShownValue,
    Sweep, SweepSeries, TimedRuns, Work,
};
use crate::primitives::bench::HISTOGRAM_RANDOM;
use crate::primitives::histogram::letters::{
    self, LETTER_BINS, LetterCounting, LetterHistogram, LetterRung, letters_on_cpu, letters_reference,
};
use crate::primitives::histogram::rungs::{RungHistogram, rungs};
use crate::primitives::histogram::wide::{self, WIDE_BINS, WideHistogram};
use crate::primitives::histogram::{
    BYTE_BINS, Histogram, HistogramStrategy, histogram_on_cpu, histogram_reference,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "histogram",
    description: "Histograms of letters, bytes and 16-bit values, with lost counts, atomics and private bins",
    title: "histograms",
    size_unit: "bytes",
    // Two inputs, and one that is being generated.
    host_bytes: |n| (n as u64).saturating_mul(3),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 26 },
    counted: BYTES,
    measure,
};

/// Each byte is read once. Increments of counters are not floating-point operations.
const WORK: Work = Work { flops: None, bytes: Some(1.0) };
/// Inputs of the histograms. Equal values all increment the same counter.
const INPUTS: [&str; 2] = ["random", "equal"];
/// Input whose time represents a rung.
const SHOWN: ShownValue = ShownValue::First;
/// Private bins of the sweep.
const PRIVATE_BINS: [u32; 6] = [1, 64, 512, 2048, 8192, 32_768];
/// Number of timed runs of each point of the sweep.
const SWEEP_REPEATS: usize = 3;

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    add_cpu_rungs(request, ladder);
    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    let values = INPUTS.map(str::to_owned).to_vec();
    ladder.parameter = Some(Parameter { name: "input", values, shown: SHOWN });
    let mut measurement = HistogramMeasurement { device, request, ladder };
    measurement.add_letters()?;
    measurement.add_wide()?;
    measurement.add_bytes()?;
    measurement.sweep_private_bins()
}

/// Returns random elements.
fn random<T: Send>(n: usize, element: fn(u64) -> T) -> Vec<T> {
    (0..n as u64).into_par_iter().map(element).collect()
}

/// Returns a random letter or, in one of 27 cases, a blank.
fn random_letter(index: u64) -> u8 {
    match random_bits(index) % 27 {
        26 => b' ',
        position => b'a' + position as u8,
    }
}

/// Returns a random number x with a density proportional to 1 / x: of all numbers, 1/16 are between
/// one power of two and the next.
fn random_log_uniform(index: u64) -> u16 {
    let uniform = (random_bits(index) >> 11) as f64 / (1u64 << 53) as f64;
    (16.0 * uniform).exp2() as u16
}

fn random_byte(index: u64) -> u8 {
    random_bits(index) as u8
}

fn add_cpu_rungs(request: &mut LadderRequest, ladder: &mut Ladder) {
    let n = request.n;
    ladder.roof = ladder.host_roofs.copy_roof();
    let roof = ladder.host_roofs.bandwidth;
    let mut add = |name: &str, times: Times| {
        let runs = TimedRuns { n, items: n as f64, times };
        ladder.add_rung(RungResult { work: WORK, roof, ..RungResult::new(name, &runs) });
    };
    let text = random(n, random_letter);
    (request.progress)("CPU, letters");
    add("CPU, one thread, letters", time_rung_on_cpu(|| letters_reference(&text)));
    add("CPU, all cores, letters", time_rung_on_cpu(|| letters_on_cpu(&text)));
    drop(text);
    let bytes = random(n, random_byte);
    (request.progress)("CPU, bytes");
    add("CPU, one thread, bytes", time_rung_on_cpu(|| histogram_reference(&bytes)));
    add("CPU, all cores, bytes", time_rung_on_cpu(|| histogram_on_cpu(&bytes)));
}

struct HistogramMeasurement<'a, 'b> {
    device: &'a Device,
    request: &'a mut LadderRequest<'b>,
    ladder: &'a mut Ladder,
}

impl HistogramMeasurement<'_, '_> {
    /// Times `launch` for both inputs and adds the rung.
    fn add_rung<T: Element>(
        &mut self,
        name: &str,
        note: String,
        inputs: &[Buffer<T>; 2],
        launch: impl Fn(&Buffer<T>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let time_input = |input: &Buffer<T>| -> Result<Option<TimedRuns>, DeviceError> {
            let times = time_rung_on_device(self.device, || launch(input))?;
            let items = (input.len() * size_of::<T>()) as f64;
            Ok(Some(TimedRuns { n: self.request.n, items, times }))
        };
        let runs = inputs.iter().map(time_input).collect::<Result<Vec<_>, _>>()?;
        if let Some(result) = RungResult::with_sweep(name, &runs, SHOWN) {
            let roof = self.ladder.roofs.bandwidth;
            self.ladder.add_rung(RungResult { note, work: WORK, roof, ..result });
        }
        Ok(())
    }

    fn add_letters(&mut self) -> Result<(), DeviceError> {
        let (device, n) = (self.device, self.request.n);
        let text = random(n, random_letter);
        let exact = letters_reference(&text);
        let inputs = [device.upload(&text)?, device.upload(&vec![b'a'; n])?];
        drop(text);
        let counts = device.zeros(LETTER_BINS)?;
        for rung in letters::rungs() {
            (self.request.progress)(rung.name);
            let histogram = LetterHistogram::new(device, rung.partition, rung.counting)?;
            let launch = |input: &Buffer<u8>| histogram.launch(device.queue(), input, &counts);
            launch(&inputs[0])?;
            let note = letter_note(&rung, &exact, &counts.to_vec()?);
            self.add_rung(rung.name, note, &inputs, launch)?;
        }
        Ok(())
    }

    fn add_wide(&mut self) -> Result<(), DeviceError> {
        let device = self.device;
        let inputs = [
            device.upload(&random(self.wide_len(), random_log_uniform))?,
            device.upload(&vec![1; self.wide_len()])?,
        ];
        let counts = device.zeros(WIDE_BINS)?;
        for rung in wide::rungs() {
            (self.request.progress)(rung.name);
            let histogram = WideHistogram::new(device, rung.private_bins)?;
            let launch = |input: &Buffer<u16>| histogram.launch(device.queue(), input, &counts);
            self.add_rung(rung.name, rung.note.to_owned(), &inputs, launch)?;
        }
        Ok(())
    }

    fn add_bytes(&mut self) -> Result<(), DeviceError> {
        let (device, n) = (self.device, self.request.n);
        let inputs = [device.upload(&random(n, random_byte))?, device.zeros(n)?];
        let counts = device.zeros(BYTE_BINS)?;
        for rung in rungs() {
            (self.request.progress)(rung.name);
            let histogram = RungHistogram::new(device, rung.variant)?;
            let launch = |input: &Buffer<u8>| histogram.launch(device.queue(), input, &counts);
            self.add_rung(rung.name, rung.note.to_owned(), &inputs, launch)?;
        }
        self.add_tuned_bytes(&inputs, &counts)
    }

    /// Adds a rung for the strategy that the tuner found to be faster than the default for random
    /// bytes, which represent the rungs, if there is one.
    fn add_tuned_bytes(&mut self, inputs: &[Buffer<u8>; 2], counts: &Buffer<u64>) -> Result<(), DeviceError> {
        let (device, n) = (self.device, self.request.n);
        let tuned = self.request.tuning.and_then(|tuning| tuning.tuned_candidate(HISTOGRAM_RANDOM, n));
        let Some(candidate) = tuned else { return Ok(()) };
        let (name, strategy) = ("bytes: tuned", HistogramStrategy::CANDIDATES[candidate]);
        (self.request.progress)(name);
        let histogram = Histogram::with_strategy(device, strategy)?;
        let launch = |input: &Buffer<u8>| histogram.launch(device.queue(), input, counts);
        self.add_rung(name, strategy.name(), inputs, launch)
    }

    /// Returns the number of 16-bit values in as many bytes as the other inputs have.
    fn wide_len(&self) -> usize {
        (self.request.n / 2).max(1)
    }

    /// Times the histogram of 65,536 bins for several numbers of private bins.
    fn sweep_private_bins(&mut self) -> Result<(), MeasureError> {
        let (device, len) = (self.device, self.wide_len());
        (self.request.progress)("private bins");
        let inputs = [
            ("log-uniform", device.upload(&random(len, random_log_uniform))?),
            ("uniform", device.upload(&random(len, |index| random_bits(index) as u16))?),
        ];
        let counts = device.zeros(WIDE_BINS)?;
        let mut series =
            inputs.each_ref().map(|(name, _)| SweepSeries { name: (*name).to_owned(), points: Vec::new() });
        for private_bins in PRIVATE_BINS {
            let fits = WideHistogram::fits(device, private_bins);
            let histogram = if fits { Some(WideHistogram::new(device, private_bins)?) } else { None };
            for ((_, input), series) in inputs.iter().zip(&mut series) {
                let point = histogram.as_ref().map(|histogram| {
                    let mut launch = || histogram.launch(device.queue(), input, &counts);
                    let run_seconds = time_once(device, &mut launch)?;
                    let times = time_on_device(device, SWEEP_REPEATS, run_seconds, launch)?;
                    Ok::<_, DeviceError>(2.0 * len as f64 / times.median() / 1e9)
                });
                series.points.push(point.transpose()?);
            }
        }
        self.ladder.sweeps.push(Sweep {
            title: "65,536 bins, the first of them private".to_owned(),
            parameter: "private bins",
            unit: "GB/s",
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            values: PRIVATE_BINS.map(f64::from).to_vec(),
            series: series.into(),
        });
        Ok(())
    }
}

/// Returns the note of a rung: for one with a race, how many letters of the random text it lost.
fn letter_note(rung: &LetterRung, exact: &[u64; LETTER_BINS], found: &[u64]) -> String {
    if rung.counting != LetterCounting::Racy {
        return rung.note.to_owned();
    }
    let (exact, found): (u64, u64) = (exact.iter().sum(), found.iter().sum());
    let lost = exact.saturating_sub(found);
    if lost == 0 {
        return format!("{}; lost no counts this time", rung.note);
    }
    let share = format_percent(Some(lost as f64 / exact.max(1) as f64));
    let [lost, exact] = [lost, exact].map(|count| format_thousands(count as usize));
    format!("{}; lost {lost} of {exact} counts ({share})", rung.note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::bench::tuning_of_candidate;

    #[test]
    fn the_note_of_a_race_has_the_lost_counts() {
        let exact = [500, 300, 100, 0, 0, 0, 100];
        for rung in letters::rungs() {
            let note = letter_note(&rung, &exact, &[1, 1, 1, 0, 0, 0, 7]);
            let lost = "; lost 990 of 1,000 counts (99%)";
            assert_eq!(note.ends_with(lost), rung.counting == LetterCounting::Racy, "{note}");
            let note = letter_note(&rung, &exact, &exact);
            assert_eq!(note.ends_with("; lost no counts this time"), rung.counting == LetterCounting::Racy);
        }
    }

    #[test]
    fn a_strategy_of_the_tuner_is_a_rung() {
        let Some(device) = crate::test_device() else { return };
        let n = 1000;
        let inputs = [device.upload(&random(n, random_byte)).unwrap(), device.zeros(n).unwrap()];
        let counts = device.zeros(BYTE_BINS).unwrap();
        let tuning = tuning_of_candidate(&device, HISTOGRAM_RANDOM, 1, n);
        let rungs_with = |tuning| {
            let mut ladder = Ladder::new(&LADDER, device.title(), n);
            let mut request = LadderRequest { device: Some(&device), n, tuning, progress: &mut |_| {} };
            let mut measurement =
                HistogramMeasurement { device: &device, request: &mut request, ladder: &mut ladder };
            measurement.add_tuned_bytes(&inputs, &counts).unwrap();
            ladder.rungs
        };
        assert_eq!(rungs_with(None), []);
        let rungs = rungs_with(Some(&tuning));
        let names: Vec<[&str; 2]> = rungs.iter().map(|rung| [&*rung.name, &*rung.note]).collect();
        assert_eq!(names, [["bytes: tuned", "16 tables"]]);
        assert!(rungs[0].rates.iter().all(|rate| rate.is_some_and(|rate| rate > 0.0)), "{rungs:?}");
        // The last run counted the second input, all bytes of which are 0.
        assert_eq!(counts.to_vec().unwrap()[..2], [n as u64, 0]);
    }

    #[test]
    fn most_random_values_are_small() {
        let values = random(16_000, random_log_uniform);
        let small = values.iter().filter(|value| **value < 8192).count();
        // 13/16 of 16,000, with a standard deviation of 49.
        assert!((12_750..13_250).contains(&small), "{small}");
    }
}
