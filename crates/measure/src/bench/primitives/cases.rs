//! Input, measurement and check of each primitive.

use std::fmt::Display;

use orrery_device::DeviceError;
use orrery_primitives::Number;
use orrery_primitives::histogram::{self, BYTE_BINS, Histogram, HistogramStrategy};
use orrery_primitives::label::{
    Connectivity, Label, LabelStrategy, MaskShape, RunTiles, label_on_cpu, label_reference,
};
use orrery_primitives::matmul::{Matmul, MatmulStrategy, Product, matmul_on_cpu};
use orrery_primitives::reduce::{self, Operation, Reduce, ReduceStrategy};
use orrery_primitives::scan::{self, Scan, ScanStrategy};
use orrery_primitives::sort::{self, Key, Sort, SortStrategy};
use orrery_primitives::transpose::{MatrixShape, Transpose, TransposeStrategy, transpose_on_cpu};
use rayon::prelude::*;

use super::verify::{first_difference, first_not_transposed, first_unsorted, first_wrong_product};
use super::{Checked, Primitive, PrimitivesBench, random_elements, small_whole_number};

/// Fraction of set pixels of a mask: the percolation threshold.
const SET_FRACTION: f64 = 0.593;

/// Returns 1 for the fraction [`SET_FRACTION`] of all random bits, else 0.
fn random_pixel(bits: u64) -> u8 {
    u8::from(((bits >> 11) as f64) < SET_FRACTION * (1u64 << 53) as f64)
}

impl PrimitivesBench<'_> {
    /// Measures and checks the default strategy or a candidate on `n` elements.
    pub(super) fn run_case(
        &self,
        primitive: Primitive,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<Checked, DeviceError> {
        let scan_strategy = || candidate.map_or_else(ScanStrategy::default, |i| ScanStrategy::CANDIDATES[i]);
        let sort_strategy = || candidate.map(|i| SortStrategy::CANDIDATES[i]);
        match primitive {
            Primitive::SumF32 => {
                let strategy = ReduceStrategy::CANDIDATES[candidate.unwrap_or(0)];
                self.measure_sum(&random_elements(n, small_whole_number), strategy)
            }
            Primitive::ScanF32 => self.measure_scan(&random_elements(n, small_whole_number), scan_strategy()),
            Primitive::ScanU32 => self.measure_scan(&random_elements(n, |bits| bits as u32), scan_strategy()),
            Primitive::SortU64 => self.measure_sort(&random_elements(n, |bits| bits), sort_strategy()),
            Primitive::SortU32 => self.measure_sort(&random_elements(n, |bits| bits as u32), sort_strategy()),
            Primitive::HistogramRandom | Primitive::HistogramEqual => {
                let strategy = HistogramStrategy::CANDIDATES[candidate.unwrap_or(0)];
                let is_random = primitive == Primitive::HistogramRandom;
                self.measure_histogram(
                    &random_elements(n, |bits| if is_random { bits as u8 } else { 7 }),
                    strategy,
                )
            }
            Primitive::TransposeF32 => {
                let strategy = candidate.map(|i| TransposeStrategy::CANDIDATES[i]);
                self.measure_transpose(&random_elements(n, |bits| (bits >> 40) as f32), strategy)
            }
            Primitive::MatmulF32 => self.measure_matmul(n, candidate.map(|i| MatmulStrategy::CANDIDATES[i])),
            Primitive::LabelImage => {
                let tiles = RunTiles::CANDIDATES[candidate.unwrap_or(0)];
                self.measure_label(&random_elements(n, random_pixel), tiles)
            }
        }
    }

    fn measure_sum(&self, numbers: &[f32], strategy: ReduceStrategy) -> Result<Checked, DeviceError> {
        let (times, sum) = match self.device {
            None => self.time_on_host(|| (), |()| reduce::reduce_on_cpu(Operation::Sum, numbers)),
            Some((device, _)) => {
                let (input, output) = (device.upload(numbers)?, device.zeros(1)?);
                let reduce = Reduce::with_strategy(device, Operation::Sum, strategy)?;
                let times = self.time_on_device(device, || reduce.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?[0])
            }
        };
        Ok((times, first_difference(&[sum], &[reduce::reduce_reference(Operation::Sum, numbers)])))
    }

    fn measure_scan<T: Number + Display>(
        &self,
        numbers: &[T],
        strategy: ScanStrategy,
    ) -> Result<Checked, DeviceError> {
        let kind = scan::ScanKind::Inclusive;
        let scan_on_cpu = |mut sums: Vec<T>| {
            scan::scan_on_cpu(kind, &mut sums);
            sums
        };
        let (times, sums) = match self.device {
            None => self.time_on_host(|| numbers.to_vec(), scan_on_cpu),
            Some((device, _)) => {
                let (input, output) = (device.upload(numbers)?, device.zeros(numbers.len())?);
                let mut scan = Scan::with_strategy(device, kind, strategy)?;
                let times = self.time_on_device(device, || scan.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?)
            }
        };
        let mut expected = numbers.to_vec();
        scan::scan_reference(kind, &mut expected);
        Ok((times, first_difference(&sums, &expected)))
    }

    fn measure_sort<K: Key + Display>(
        &self,
        keys: &[K],
        strategy: Option<SortStrategy>,
    ) -> Result<Checked, DeviceError> {
        let values: Vec<u32> = (0..keys.len()).into_par_iter().map(|i| i as u32).collect();
        let sort_on_cpu = |(mut keys, mut values): (Vec<K>, Vec<u32>)| {
            sort::sort_on_cpu(&mut keys, &mut values);
            (keys, values)
        };
        let (times, sorted) = match self.device {
            None => self.time_on_host(|| (keys.to_vec(), values.clone()), sort_on_cpu),
            Some((device, _)) => {
                let unsorted = (device.upload(keys)?, device.upload(&values)?);
                let (keys, values) = (device.zeros(keys.len())?, device.zeros(keys.len())?);
                let mut sort = match strategy {
                    None => Sort::new(device, keys.len())?,
                    Some(strategy) => {
                        let has_wide_offsets = u32::try_from(keys.len()).is_err();
                        Sort::with_strategy(
                            device,
                            keys.len(),
                            SortStrategy { has_wide_offsets, ..strategy },
                        )?
                    }
                };
                let restore = || {
                    device.queue().copy(&unsorted.0, &keys)?;
                    device.queue().copy(&unsorted.1, &values)
                };
                let times =
                    self.time_with_restore(device, restore, || sort.launch(device.queue(), &keys, &values))?;
                (times, (keys.to_vec()?, values.to_vec()?))
            }
        };
        Ok((times, first_unsorted(keys, &sorted.0, &sorted.1)))
    }

    fn measure_histogram(&self, bytes: &[u8], strategy: HistogramStrategy) -> Result<Checked, DeviceError> {
        let (times, counts) = match self.device {
            None => self.time_on_host(|| (), |()| histogram::histogram_on_cpu(bytes).to_vec()),
            Some((device, _)) => {
                let (input, output) = (device.upload(bytes)?, device.zeros(BYTE_BINS)?);
                let histogram = Histogram::with_strategy(device, strategy)?;
                let times =
                    self.time_on_device(device, || histogram.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?)
            }
        };
        Ok((times, first_difference(&counts, &histogram::histogram_reference(bytes))))
    }

    fn measure_transpose(
        &self,
        numbers: &[f32],
        strategy: Option<TransposeStrategy>,
    ) -> Result<Checked, DeviceError> {
        let shape = MatrixShape::square(numbers.len().isqrt());
        let transpose_on_host = |mut to: Vec<f32>| {
            transpose_on_cpu(shape, numbers, &mut to);
            to
        };
        let (times, transposed) = match self.device {
            None => self.time_on_host(|| vec![1.0; numbers.len()], transpose_on_host),
            Some((device, _)) => {
                let strategy = strategy.unwrap_or_else(|| TransposeStrategy::default_for(shape, 4));
                let (from, to) = (device.upload(numbers)?, device.zeros(numbers.len())?);
                let transpose = Transpose::with_strategy(device, shape, strategy)?;
                let times = self.time_on_device(device, || transpose.launch(device.queue(), &from, &to))?;
                (times, to.to_vec()?)
            }
        };
        Ok((times, first_not_transposed(shape, numbers, &transposed)))
    }

    /// Multiplies squares of whole numbers from -8 to 8. Sums of 2^18 products stay below 2^24, so
    /// they are exact.
    fn measure_matmul(&self, n: usize, strategy: Option<MatmulStrategy>) -> Result<Checked, DeviceError> {
        let side = n.isqrt();
        let product = Product::<f32>::new(side, side, side);
        let [a, b] = [0, 32].map(|shift| random_elements(n, |bits| small_whole_number(bits >> shift)));
        let multiply_on_host = |mut c: Vec<f32>| {
            matmul_on_cpu(&product, &a, &b, &mut c);
            c
        };
        let (times, found) = match self.device {
            None => self.time_on_host(|| vec![1.0; n], multiply_on_host),
            Some((device, _)) => {
                let strategy = strategy.unwrap_or_else(|| MatmulStrategy::default_for(device, &product));
                let matmul = Matmul::with_strategy(device, &product, strategy)?;
                let [left, right, to] = [device.upload(&a)?, device.upload(&b)?, device.zeros(n)?];
                let times =
                    self.time_on_device(device, || matmul.launch(device.queue(), &left, &right, &to))?;
                (times, to.to_vec()?)
            }
        };
        Ok((times, first_wrong_product(side, &a, &b, &found)))
    }

    fn measure_label(&self, mask: &[u8], tiles: RunTiles) -> Result<Checked, DeviceError> {
        let shape = MaskShape::image(mask.len().isqrt(), mask.len().isqrt());
        let label_with = |label: fn(MaskShape, Connectivity, &[u8], &mut [u32]) -> u32| {
            move |mut labels: Vec<u32>| {
                label(shape, Connectivity::Faces, mask, &mut labels);
                labels
            }
        };
        let (times, found, expected) = match self.device {
            None => {
                let (times, found) = self.time_on_host(|| vec![1; mask.len()], label_with(label_on_cpu));
                (times, found, label_with(label_reference)(vec![0; mask.len()]))
            }
            Some((device, _)) => {
                let strategy = LabelStrategy::Runs(tiles);
                let mut label = Label::with_strategy(device, shape, Connectivity::Faces, strategy)?;
                let (input, labels, count) =
                    (device.upload(mask)?, device.zeros(mask.len())?, device.zeros(1)?);
                let times =
                    self.time_on_device(device, || label.launch(device.queue(), &input, &labels, &count))?;
                (times, labels.to_vec()?, label_with(label_on_cpu)(vec![0; mask.len()]))
            }
        };
        Ok((times, first_difference(&found, &expected)))
    }
}
