//! Samples of a field for a picture: the means of its pixels.
//!
//! The rectangle of the field in a picture depends on the labels of the colour bar and on the
//! legend, so it can depend on the values. [`FieldSampler`] therefore takes samples for the
//! rectangle of the last picture, which is nearly always the right one, and takes them again if it
//! is not.

use std::sync::Arc;

use orrery_model::grid::PixelWeights;
use rayon::prelude::*;

use super::draw::{self, Canvas};
use super::layout::FieldLayout;
use super::{FieldPicture, Found, NAN_COLOUR, OUTSIDE, ValueRange, shaded};
use crate::picture::{ColourMap, Image, PictureError};

/// Means of a field over the pixels of a picture. They are much smaller than a large field, so that
/// the picture can be drawn later, in another thread.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSamples {
    /// Mean of each pixel of the plate. Rows start at the first row of the grid.
    means: Vec<f64>,
    range: ValueRange,
    time: String,
    has_nan: bool,
}

/// Means of the pixels that a picture needs.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenMeans {
    /// Mean of each pixel, as [`PixelWeights::compute_row`] computes them.
    pub means: Vec<f64>,
    /// Whether a mean is NaN.
    pub has_nan: bool,
    /// Range of colours of the picture. It does not depend on the weights.
    pub range: ValueRange,
}

/// Takes the samples of all pictures of a run.
#[derive(Clone, Debug)]
pub struct FieldSampler {
    picture: Arc<FieldPicture>,
    /// Range of the first picture, if it is known.
    first_range: ValueRange,
    last: Option<SampledPlate>,
}

/// The rectangle of the field in a picture, and what determines it.
#[derive(Clone, Debug)]
struct SampledPlate {
    range: ValueRange,
    has_nan: bool,
    has_time: bool,
    /// Left, top, right, bottom in pixels.
    plate: [i64; 4],
    weights: PixelWeights,
}

impl SampledPlate {
    /// Returns the rectangle of a picture with this range. Keeps what is the same in `last`.
    fn update<'a>(
        last: &'a mut Option<Self>,
        picture: &FieldPicture,
        range: ValueRange,
        has_nan: bool,
        time: &str,
    ) -> Result<&'a Self, PictureError> {
        let has_time = !time.is_empty();
        let updated = match last.take() {
            Some(same) if (same.range, same.has_nan, same.has_time) == (range, has_nan, has_time) => same,
            other => {
                picture.grid.validate()?;
                picture.boundaries.validate(&picture.grid)?;
                let plate = FieldLayout::new(picture, range, time, has_nan).plate;
                let weights = match other {
                    Some(other) if other.plate == plate => other.weights,
                    _ => plate_weights(picture, plate),
                };
                Self { range, has_nan, has_time, plate, weights }
            }
        };
        Ok(last.insert(updated))
    }
}

/// Returns the weights of the pixels of the rectangle `plate` (left, top, right, bottom).
fn plate_weights(picture: &FieldPicture, [left, top, right, bottom]: [i64; 4]) -> PixelWeights {
    let pixels = ((right - left) as usize, (bottom - top) as usize);
    PixelWeights::new(&picture.grid, &picture.boundaries, pixels)
}

impl FieldSampler {
    /// Creates a sampler of pictures. `range` is that of the first picture, or any other one if it
    /// is not known.
    pub fn new(picture: Arc<FieldPicture>, range: ValueRange) -> Self {
        Self { picture, first_range: range, last: None }
    }

    /// Returns the description of the pictures.
    pub fn picture(&self) -> &Arc<FieldPicture> {
        &self.picture
    }

    /// Takes the samples of a picture with this `time`. `take` returns the means with these
    /// weights, and is called again if the picture turns out to need others.
    pub fn sample<E: From<PictureError>>(
        &mut self,
        time: &str,
        take: impl FnMut(&PixelWeights) -> Result<TakenMeans, E>,
    ) -> Result<FieldSamples, E> {
        let guess = self.last.as_ref().map_or(self.first_range, |last| last.range);
        take_samples(&self.picture, &mut self.last, guess, time, take)
    }
}

/// Takes samples for the rectangle of a picture with the range `guess`, and again as long as the
/// result has another rectangle.
fn take_samples<E: From<PictureError>>(
    picture: &FieldPicture,
    last: &mut Option<SampledPlate>,
    guess: ValueRange,
    time: &str,
    mut take: impl FnMut(&PixelWeights) -> Result<TakenMeans, E>,
) -> Result<FieldSamples, E> {
    let (mut range, mut has_nan) = (guess.widened(1e-9), false);
    loop {
        let sampled = SampledPlate::update(last, picture, range, has_nan, time)?;
        let plate = sampled.plate;
        let taken = take(&sampled.weights)?;
        range = taken.range.widened(1e-9);
        has_nan |= taken.has_nan;
        if SampledPlate::update(last, picture, range, has_nan, time)?.plate == plate {
            return Ok(FieldSamples { means: taken.means, range, time: time.to_owned(), has_nan });
        }
    }
}

impl FieldSamples {
    /// Computes the means of `values`, which are those of [`render_field`](super::render_field).
    /// The picture will have this `range` and `time`.
    pub fn new<T: Copy + Into<f64> + Send + Sync>(
        values: &[T],
        picture: &FieldPicture,
        range: ValueRange,
        time: &str,
    ) -> Result<Self, PictureError> {
        picture.grid.validate()?;
        if values.len() != picture.grid.len() {
            return Err(PictureError::FieldLength { found: values.len(), expected: picture.grid.len() });
        }
        take_samples(picture, &mut None, range, time, |weights| {
            let mut means = vec![0.0; weights.width() * weights.height()];
            means
                .par_chunks_exact_mut(weights.width())
                .enumerate()
                .for_each_init(Vec::new, |scratch, (row, line)| {
                    weights.compute_row(values, row, scratch, line)
                });
            let has_nan = means.par_chunks(1 << 12).any(|chunk| chunk.iter().any(|mean| mean.is_nan()));
            Ok(TakenMeans { means, has_nan, range })
        })
    }

    /// Draws the picture, which must be that of the samples.
    pub fn render(&self, picture: &FieldPicture) -> Result<Image, PictureError> {
        if let Some(underlay) = &picture.underlay
            && underlay.shades().len() != picture.grid.len()
        {
            return Err(PictureError::UnderlayLength {
                found: underlay.shades().len(),
                expected: picture.grid.len(),
            });
        }
        let layout = FieldLayout::new(picture, self.range, &self.time, self.has_nan);
        let (width, height) = (picture.pixels.0.max(1), picture.pixels.1.max(1));
        let mut image = Image::filled(width, height, draw::BACKGROUND);
        let found = self.draw_plate(&mut image, picture, layout.plate);
        Canvas::new(&mut image, &layout).draw_all(picture, &self.time, found);
        Ok(image)
    }

    /// Draws the field into the rectangle `plate` (left, top, right, bottom) of the image.
    fn draw_plate(&self, image: &mut Image, picture: &FieldPicture, plate: [i64; 4]) -> Found {
        let [left, top, right, bottom] = plate.map(|side| side as usize);
        let weights = picture.underlay.as_ref().map(|_| plate_weights(picture, plate));
        let table = picture.colours.srgb_table();
        let bytes_per_row = 3 * image.width as usize;
        let (mut shades, mut scratch) = (vec![0.0; right - left], Vec::new());
        let mut found = Found::default();
        let lines = image.rgb[top * bytes_per_row..bottom * bytes_per_row].chunks_exact_mut(bytes_per_row);
        for (row, line) in lines.enumerate() {
            let row = if picture.is_depth_down { row } else { bottom - top - 1 - row };
            if let (Some(weights), Some(underlay)) = (&weights, &picture.underlay) {
                weights.compute_row(underlay.shades(), row, &mut scratch, &mut shades);
            }
            let means = &self.means[row * (right - left)..][..right - left];
            let pixels = line[3 * left..3 * right].chunks_exact_mut(3);
            for ((&mean, &shade), pixel) in means.iter().zip(shades.iter()).zip(pixels) {
                let t = self.range.position_of(mean);
                found = found.or(Found { below: t < -OUTSIDE, above: t > 1.0 + OUTSIDE, nan: t.is_nan() });
                let colour = match t {
                    t if t.is_nan() => NAN_COLOUR,
                    t => shaded(table[ColourMap::entry_of(t as f32)], shade),
                };
                pixel.copy_from_slice(&colour);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::grid::{Boundaries, Boundary, Grid};

    use super::*;

    const GRID: Grid = Grid { nx: 41, ny: 31, hx: 1.0, hy: 1.0 };

    fn picture() -> Arc<FieldPicture> {
        let boundaries = Boundaries::uniform(Boundary::INSULATED);
        let picture = FieldPicture {
            title: "a plate".into(),
            quantity: "temperature".into(),
            ..FieldPicture::new(GRID, boundaries, (300, 240))
        };
        Arc::new(picture)
    }

    fn tilted(slope: f64) -> Vec<f64> {
        (0..GRID.len()).map(|i| slope * (i % GRID.nx) as f64).collect()
    }

    /// Returns the samples of `values`, whose range is that of the colours, and the number of
    /// times that they were taken.
    fn sampled(sampler: &mut FieldSampler, values: &[f64]) -> (FieldSamples, usize) {
        let (mut count, range) = (0, ValueRange::covering(values));
        let samples = sampler.sample("t = 1 s", |weights| {
            count += 1;
            let mut means = vec![0.0; weights.width() * weights.height()];
            let mut scratch = Vec::new();
            for (row, line) in means.chunks_exact_mut(weights.width()).enumerate() {
                weights.compute_row(values, row, &mut scratch, line);
            }
            let has_nan = means.iter().any(|mean| mean.is_nan());
            Ok::<_, PictureError>(TakenMeans { means, has_nan, range })
        });
        (samples.unwrap(), count)
    }

    /// The labels of the colour bar get wider and narrower, so the plate changes. All samples are
    /// those that are taken without a guess.
    #[test]
    fn samples_do_not_depend_on_the_pictures_before() {
        let mut sampler = FieldSampler::new(picture(), ValueRange { low: 0.0, high: 1.0 });
        let mut counts = Vec::new();
        for slope in [1.0, 1.0, 1.01, -123.456, -123.456, 1.0] {
            let values = tilted(slope);
            let (samples, count) = sampled(&mut sampler, &values);
            let range = ValueRange::covering(&values);
            assert_eq!(samples, FieldSamples::new(&values, &picture(), range, "t = 1 s").unwrap(), "{slope}");
            counts.push(count);
        }
        assert_eq!((counts[1], counts[4]), (1, 1), "{counts:?}");
        assert!(counts.contains(&2) && counts.iter().all(|&count| count <= 2), "{counts:?}");
    }

    #[test]
    fn samples_with_nan_have_their_entry_in_the_legend() {
        let mut values = tilted(1.0);
        values[GRID.index(20, 10)] = f64::NAN;
        let mut sampler = FieldSampler::new(picture(), ValueRange::covering(&values));
        for _ in 0..2 {
            let (samples, _) = sampled(&mut sampler, &values);
            let range = ValueRange::covering(&values);
            let expected = FieldSamples::new(&values, &picture(), range, "t = 1 s").unwrap();
            assert!(samples.has_nan && samples.means.len() == expected.means.len());
            assert_eq!(samples.render(&picture()).unwrap(), expected.render(&picture()).unwrap());
        }
        values[GRID.index(20, 10)] = 0.0;
        assert!(!sampled(&mut sampler, &values).0.has_nan);
    }
}
