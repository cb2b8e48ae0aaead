//! Entries of the legend of a field picture.

use orrery_model::grid::{Boundary, Edge, EdgeValues};

use super::{FieldPicture, PointKind, RegionKind};
use crate::picture::text_width;
use crate::plot::SMALL;

/// Width of a sample, and the spaces after it and after its text.
pub(super) const SAMPLE: f64 = 24.0;
pub(super) const SAMPLE_GAP: f64 = 6.0;
pub(super) const ENTRY_GAP: f64 = 18.0;

/// Entry of the legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LegendEntry {
    Fixed,
    Flux,
    Insulated,
    Periodic,
    Source,
    Material,
    Layer,
    PointSource,
    Receiver,
    /// Label of the underlay.
    Underlay(String),
    Nan,
}

impl LegendEntry {
    pub fn text(&self) -> &str {
        match self {
            Self::Fixed => "fixed",
            Self::Flux => "flux",
            Self::Insulated => "insulated",
            Self::Periodic => "periodic",
            Self::Source | Self::PointSource => "source",
            Self::Material => "material",
            Self::Layer => "absorbing layer",
            Self::Receiver => "receiver",
            Self::Underlay(label) => label,
            Self::Nan => "NaN",
        }
    }

    /// Returns the mark of an edge.
    pub fn for_boundary(boundary: &Boundary) -> Self {
        match boundary {
            Boundary::Fixed(_) => Self::Fixed,
            Boundary::Periodic => Self::Periodic,
            Boundary::Flux(EdgeValues::Constant(0.0)) => Self::Insulated,
            Boundary::Flux(EdgeValues::Profile(values)) if values.iter().all(|v| *v == 0.0) => {
                Self::Insulated
            }
            Boundary::Flux(_) => Self::Flux,
        }
    }

    pub fn width(&self) -> f64 {
        SAMPLE + SAMPLE_GAP + text_width(self.text(), SMALL)
    }

    /// Lists the entries of a picture in declaration order.
    pub fn list(picture: &FieldPicture, has_nan: bool) -> Vec<Self> {
        let edges = Edge::ALL.map(|edge| Self::for_boundary(picture.boundaries.on(edge)));
        let has_region = |kind| picture.regions.iter().any(|region| region.kind == kind);
        let has_point = |kind| picture.points.iter().any(|point| point.kind == kind);
        let underlay = picture.underlay.as_ref();
        let all = [
            Self::Fixed,
            Self::Flux,
            Self::Insulated,
            Self::Periodic,
            Self::Source,
            Self::Material,
            Self::Layer,
            Self::PointSource,
            Self::Receiver,
            Self::Underlay(underlay.map(|underlay| underlay.label().to_owned()).unwrap_or_default()),
            Self::Nan,
        ];
        let is_used = |entry: &Self| match entry {
            Self::Source => has_region(RegionKind::Source),
            Self::Material => has_region(RegionKind::Material),
            Self::Layer => has_region(RegionKind::Interior),
            Self::PointSource => has_point(PointKind::Source),
            Self::Receiver => has_point(PointKind::Receiver),
            Self::Underlay(_) => underlay.is_some(),
            Self::Nan => has_nan,
            edge => picture.shows_edges && edges.contains(edge),
        };
        all.into_iter().filter(is_used).collect()
    }
}

/// Divides the legend into rows of at most this width. Returns `None` if an entry is too wide.
pub(super) fn divide_into_rows(entries: &[LegendEntry], width: f64) -> Option<Vec<Vec<LegendEntry>>> {
    let mut rows: Vec<Vec<LegendEntry>> = Vec::new();
    for entry in entries {
        if entry.width() > width {
            return None;
        }
        match rows.last_mut() {
            Some(row) if row_width(row) + ENTRY_GAP + entry.width() <= width => row.push(entry.clone()),
            _ => rows.push(vec![entry.clone()]),
        }
    }
    Some(rows)
}

/// Width of a row of the legend.
pub(super) fn row_width(row: &[LegendEntry]) -> f64 {
    row.iter().map(|entry| entry.width() + ENTRY_GAP).sum::<f64>() - ENTRY_GAP
}
