//! A picture of a file of a field.

use orrery_formats::{FieldFile, FieldFrame, VolumeData};
use orrery_model::grid::{Boundaries, Boundary, Grid};

use super::{FieldPicture, ValueRange, render_field};
use crate::picture::{Image, PictureError};

/// Longer side of a picture in pixels.
const PICTURE_PIXELS: u32 = 1024;

/// Draws a plane with axes and a colour bar. Lengths start at the first node. A section has its
/// depth downwards.
pub fn render_field_file(field: &FieldFile, title: &str) -> Result<Image, PictureError> {
    let VolumeData { nodes: [nx, ny, _], ref values, .. } = field.data;
    let FieldFrame { spacing: [hx, hy, _], .. } = field.labels.frame.unwrap_or_default();
    // A file does not record the conditions on its edges.
    let boundaries = Boundaries::uniform(Boundary::INSULATED);
    let mut picture = FieldPicture {
        shows_edges: false,
        is_depth_down: field.is_section,
        title: title.to_owned(),
        quantity: field.labels.name.clone().unwrap_or_default(),
        unit: field.labels.unit.clone().unwrap_or_default(),
        ..FieldPicture::new(Grid { nx, ny, hx, hy }, boundaries, (PICTURE_PIXELS, PICTURE_PIXELS))
    };
    if field.is_section {
        picture.axis_names = ["x", "depth"];
    }
    let range = ValueRange::covering(values);
    picture.pixels = picture.fitted_pixels(PICTURE_PIXELS, range);
    let time =
        field.labels.time.map_or(String::new(), |time| format!("t = {}", orrery_model::short_number(time)));
    render_field(values, &picture, range, &time)
}
