//! Ladder of histograms: the course's letters in 7 bins, 16-bit values in 65,536 bins and bytes in
//! 256 bins, each for random and for equal values.

use std::hint::black_box;

use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, Element};
use orrery_measure::MeasureError;
use orrery_measure::format::{format_percent, format_thousands};
use rayon::prelude::*;

use super::repeats::time_point;
use super::{
    BYTES, CheckedRung, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, Parameter,
    PrepareResult, PreparedRung, RungClock, RungDetails, RungLabel, RungLimit, RungSet, ShownValue, Sweep,
    SweepScale, SweepSeries, TimedRuns, Work,
};
use crate::primitives::bench::HISTOGRAM_RANDOM;
use crate::primitives::histogram::letters::{
    self, LETTER_BINS, LetterCounting, LetterHistogram, LetterRung, letters_on_cpu, letters_reference,
};
use crate::primitives::histogram::rungs::{HistogramRung, RungHistogram, rungs};
use crate::primitives::histogram::wide::{self, WIDE_BINS, WideHistogram, WideRung};
use crate::primitives::histogram::{
    BYTE_BINS, Histogram, HistogramStrategy, histogram_on_cpu, histogram_reference, selftest,
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
    rungs: &[RungSet::of::<LetterRung>(), RungSet::of::<WideRung>(), RungSet::of::<HistogramRung>()],
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

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    let (text, bytes) = (random(n, random_letter), random(n, random_byte));
    let histograms: [(&str, &dyn Fn()); 4] = [
        ("CPU, one thread, letters", &|| _ = black_box(letters_reference(&text))),
        ("CPU, all cores, letters", &|| _ = black_box(letters_on_cpu(&text))),
        ("CPU, one thread, bytes", &|| _ = black_box(histogram_reference(&bytes))),
        ("CPU, all cores, bytes", &|| _ = black_box(histogram_on_cpu(&bytes))),
    ];
    for (name, count) in histograms {
        let prepared = PreparedRung::on_host(n, n as f64, count).with_work(WORK, RungLimit::Bandwidth);
        ladder.measure_prepared(request, name, "", prepared)?;
    }
    Ok(())
}

/// The two inputs on a device, and the counts.
pub struct HistogramInput<T: Element> {
    inputs: [Buffer<T>; 2],
    counts: Buffer<u64>,
}

impl<T: Element> HistogramInput<T> {
    /// Returns a rung that counts the input with this index.
    fn prepare<'a>(
        &'a self,
        value: usize,
        launch: impl Fn(&Buffer<T>, &Buffer<u64>) -> Result<(), DeviceError> + 'a,
    ) -> PreparedRung<'a> {
        let bytes = self.inputs[value].len() * size_of::<T>();
        let clock = RungClock::of(self.counts.device());
        PreparedRung::new(clock, bytes, bytes as f64, move || launch(&self.inputs[value], &self.counts))
            .with_work(WORK, RungLimit::Bandwidth)
    }
}

/// Inputs of the letters, with the exact counts of the random one.
pub struct LetterInput {
    histogram: HistogramInput<u8>,
    exact: [u64; LETTER_BINS],
}

impl LadderRung for LetterRung {
    type Input = LetterInput;

    const VALUES: usize = INPUTS.len();

    fn all(_: &Device) -> Vec<Self> {
        letters::rungs()
    }

    fn new_input(device: &Device, n: usize) -> Result<LetterInput, MeasureError> {
        let text = random(n, random_letter);
        let inputs = [device.upload(&text)?, device.upload(&vec![b'a'; n])?];
        let histogram = HistogramInput { inputs, counts: device.zeros(LETTER_BINS)? };
        Ok(LetterInput { histogram, exact: letters_reference(&text) })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(
        &'a self,
        LetterInput { histogram: input, exact }: &'a LetterInput,
        _: usize,
        value: usize,
    ) -> PrepareResult<'a> {
        let device = input.counts.device();
        let letters = LetterHistogram::new(device, self.partition, self.counting)?;
        let (clock, text) = (RungClock::of(device), &input.inputs[value]);
        let launch = move |letters: &mut LetterHistogram| letters.launch(device.queue(), text, &input.counts);
        let details = move |_: &mut LetterHistogram, _: &TimedRuns| {
            let note = Some(letter_note(self, exact, &input.counts.to_vec()?));
            Ok(RungDetails { note, ..RungDetails::default() })
        };
        let prepared =
            PreparedRung::with_details(clock, text.len(), text.len() as f64, letters, launch, details);
        Ok(Some(prepared.with_work(WORK, RungLimit::Bandwidth)))
    }
}

impl CheckedRung for LetterRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_letters(device, self)
    }
}

impl LadderRung for WideRung {
    type Input = HistogramInput<u16>;

    const VALUES: usize = INPUTS.len();

    fn all(_: &Device) -> Vec<Self> {
        wide::rungs()
    }

    fn new_input(device: &Device, n: usize) -> Result<HistogramInput<u16>, MeasureError> {
        let n = wide_len(n);
        let inputs = [device.upload(&random(n, random_log_uniform))?, device.upload(&vec![1; n])?];
        Ok(HistogramInput { inputs, counts: device.zeros(WIDE_BINS)? })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(&'a self, input: &'a HistogramInput<u16>, _: usize, value: usize) -> PrepareResult<'a> {
        let device = input.counts.device();
        let histogram = WideHistogram::new(device, self.private_bins)?;
        Ok(Some(input.prepare(value, move |from, to| histogram.launch(device.queue(), from, to))))
    }
}

impl LadderRung for HistogramRung {
    type Input = HistogramInput<u8>;

    const VALUES: usize = INPUTS.len();

    fn all(_: &Device) -> Vec<Self> {
        rungs()
    }

    fn new_input(device: &Device, n: usize) -> Result<HistogramInput<u8>, MeasureError> {
        let inputs = [device.upload(&random(n, random_byte))?, device.zeros(n)?];
        Ok(HistogramInput { inputs, counts: device.zeros(BYTE_BINS)? })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(&'a self, input: &'a HistogramInput<u8>, _: usize, value: usize) -> PrepareResult<'a> {
        let device = input.counts.device();
        let histogram = RungHistogram::new(device, self.variant)?;
        Ok(Some(input.prepare(value, move |from, to| histogram.launch(device.queue(), from, to))))
    }
}

impl CheckedRung for HistogramRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_variant(device, self.variant)
    }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    ladder.use_copy_roof_of(device)?;
    let values = INPUTS.map(str::to_owned).to_vec();
    ladder.parameter = Some(Parameter { name: "input", values, shown: SHOWN });
    let n = request.n;
    ladder.measure_rungs(request, &letters::rungs(), &LetterRung::new_input(device, n)?)?;
    ladder.measure_rungs(request, &wide::rungs(), &WideRung::new_input(device, n)?)?;
    let bytes = HistogramRung::new_input(device, n)?;
    ladder.measure_rungs(request, &rungs(), &bytes)?;
    add_tuned_bytes(request, ladder, &bytes)?;
    drop(bytes);
    (request.progress)("private bins");
    ladder.sweeps.push(sweep_private_bins(device, n)?);
    Ok(())
}

/// Adds a rung for the strategy that the tuner found to be faster than the default for random
/// bytes, which represent the rungs, if there is one.
fn add_tuned_bytes(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    input: &HistogramInput<u8>,
) -> Result<(), MeasureError> {
    let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(HISTOGRAM_RANDOM, request.n));
    let Some(candidate) = tuned else { return Ok(()) };
    let label = RungLabel::new("bytes: tuned", HistogramStrategy::CANDIDATES[candidate].name());
    (request.progress)(&label.name);
    let device = input.counts.device();
    let histogram = Histogram::with_strategy(device, HistogramStrategy::CANDIDATES[candidate])?;
    let launch = |from: &Buffer<u8>, to: &Buffer<u64>| histogram.launch(device.queue(), from, to);
    let measured = (0..INPUTS.len()).map(|value| input.prepare(value, launch).measure().map(Some));
    ladder.add_measured(label, measured.collect::<Result<_, _>>()?);
    Ok(())
}

/// Returns the number of 16-bit values in as many bytes as the other inputs have.
fn wide_len(n: usize) -> usize {
    (n / 2).max(1)
}

/// Times the histogram of 65,536 bins for several numbers of private bins.
fn sweep_private_bins(device: &Device, n: usize) -> Result<Sweep, DeviceError> {
    let len = wide_len(n);
    let inputs = [
        ("log-uniform", device.upload(&random(len, random_log_uniform))?),
        ("uniform", device.upload(&random(len, |index| random_bits(index) as u16))?),
    ];
    let counts = device.zeros(WIDE_BINS)?;
    let mut series =
        inputs.each_ref().map(|(name, _)| SweepSeries { name: (*name).to_owned(), points: Vec::new() });
    for private_bins in PRIVATE_BINS {
        let fits = WideHistogram::fits(device, private_bins);
        let histogram = fits.then(|| WideHistogram::new(device, private_bins)).transpose()?;
        for ((_, input), series) in inputs.iter().zip(&mut series) {
            let time = |histogram: &WideHistogram| {
                let launch = || histogram.launch(device.queue(), input, &counts);
                time_point(device, SWEEP_REPEATS, launch).map(|times| 2.0 * len as f64 / times.median() / 1e9)
            };
            series.points.push(histogram.as_ref().map(time).transpose()?);
        }
    }
    Ok(Sweep {
        title: "65,536 bins, the first of them private".to_owned(),
        parameter: "private bins",
        unit: "GB/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: PRIVATE_BINS.map(f64::from).to_vec(),
        series: series.into(),
    })
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
        let input = HistogramRung::new_input(&device, n).unwrap();
        let tuning = tuning_of_candidate(&device, HISTOGRAM_RANDOM, 1, n);
        let rungs_with = |tuning| {
            let mut ladder = Ladder::new(&LADDER, device.title(), n);
            let mut request = LadderRequest { device: Some(&device), n, tuning, progress: &mut |_| {} };
            let values = INPUTS.map(str::to_owned).to_vec();
            ladder.parameter = Some(Parameter { name: "input", values, shown: SHOWN });
            add_tuned_bytes(&mut request, &mut ladder, &input).unwrap();
            ladder.rungs
        };
        assert_eq!(rungs_with(None), []);
        let rungs = rungs_with(Some(&tuning));
        let names: Vec<[&str; 2]> = rungs.iter().map(|rung| [&*rung.name, &*rung.note]).collect();
        assert_eq!(names, [["bytes: tuned", "16 tables"]]);
        assert!(rungs[0].rates.iter().all(|rate| rate.is_some_and(|rate| rate > 0.0)), "{rungs:?}");
        // The last run counted the second input, all bytes of which are 0.
        assert_eq!(input.counts.to_vec().unwrap()[..2], [n as u64, 0]);
    }

    #[test]
    fn most_random_values_are_small() {
        let values = random(16_000, random_log_uniform);
        let small = values.iter().filter(|value| **value < 8192).count();
        // 13/16 of 16,000, with a standard deviation of 49.
        assert!((12_750..13_250).contains(&small), "{small}");
    }
}
