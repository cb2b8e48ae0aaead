//! Conversion of a layout to SVG. Texts remain texts, drawn in the sans-serif font of the viewer.

use std::fmt::Write;

use super::layout::{Anchor, Item, PlotLayout};
use crate::picture::{Level, text_parts};

/// Returns the SVG document of a layout.
pub(super) fn svg_document(layout: &PlotLayout, title: &str) -> String {
    let (w, h) = (layout.width, layout.height);
    let [left, top, right, bottom] = layout.frame;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         font-family=\"'DejaVu Sans', Verdana, Arial, sans-serif\" fill=\"none\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <clipPath id=\"frame\"><rect x=\"{left:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"/></clipPath>\n",
        escape_xml(title),
        top - 2.0,
        right - left + 2.0,
        bottom - top + 4.0,
    );
    layout.items.iter().for_each(|item| write_item(&mut out, item));
    out.push_str("<g clip-path=\"url(#frame)\">\n");
    layout.curves.iter().for_each(|item| write_item(&mut out, item));
    out.push_str("</g>\n</svg>\n");
    out
}

/// Appends one element. Writing to a string cannot fail, so the results of `write!` are ignored.
fn write_item(out: &mut String, item: &Item) {
    match item {
        Item::Line { points, colour, width, dashed } => {
            let dash = if *dashed { " stroke-dasharray=\"6 4\"" } else { "" };
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>",
                coordinates(points),
                hex_colour(*colour),
            );
        }
        Item::Area { points, colour } => {
            let _ = writeln!(
                out,
                "<polygon points=\"{}\" fill=\"{}\"/>",
                coordinates(points),
                hex_colour(*colour)
            );
        }
        Item::Marks { points, colour, radius } => {
            let _ = writeln!(out, "<g fill=\"{}\">", hex_colour(*colour));
            for [x, y] in points {
                let _ = writeln!(out, "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\"/>");
            }
            out.push_str("</g>\n");
        }
        Item::Text { text, at: [x, y], size, colour, anchor, upwards, bold } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let turn =
                if *upwards { format!(" transform=\"rotate(-90 {x:.2} {y:.2})\"") } else { String::new() };
            let weight = if *bold { " font-weight=\"bold\"" } else { "" };
            // Capitals are 0.73 em high in the requested fonts.
            let _ = writeln!(
                out,
                "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{}\"{weight}{turn}>{}</text>",
                size / 0.73,
                hex_colour(*colour),
                text_spans(text, *size),
            );
        }
    }
}

/// Returns the points of a polyline or polygon.
fn coordinates(points: &[[f64; 2]]) -> String {
    points.iter().map(|[x, y]| format!("{x:.2},{y:.2}")).collect::<Vec<_>>().join(" ")
}

/// Returns the text as spans, with raised and lowered parts.
fn text_spans(text: &str, size: f64) -> String {
    let mut out = String::new();
    let mut height = 0.0;
    for (level, part) in text_parts(text) {
        let shift = match level {
            Level::Line => 0.0,
            Level::Raised => -0.5 * size,
            Level::Lowered => 0.25 * size,
        };
        // The size is a number, because not every SVG viewer supports percentages here.
        let small = match level {
            Level::Line => String::new(),
            Level::Raised | Level::Lowered => format!(" font-size=\"{:.1}\"", 0.72 * size / 0.73),
        };
        let _ = write!(out, "<tspan dy=\"{:.1}\"{small}>{}</tspan>", shift - height, escape_xml(part));
        height = shift;
    }
    out
}

fn hex_colour([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Escapes text for XML. Control characters, which XML does not allow, become blanks.
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
