//! A scene as SVG. Texts stay texts; the viewer's own sans-serif is used.

use std::fmt::Write;

use super::layout::{Anchor, Item, PlotLayout};
use crate::picture::{Level, text_parts};

pub(super) fn document(scene: &PlotLayout, title: &str) -> String {
    let (w, h) = (scene.width, scene.height);
    let [left, top, right, bottom] = scene.frame;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         font-family=\"'DejaVu Sans', Verdana, Arial, sans-serif\" fill=\"none\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <clipPath id=\"frame\"><rect x=\"{left:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"/></clipPath>\n",
        escape(title),
        top - 2.0,
        right - left + 2.0,
        bottom - top + 4.0,
    );
    scene.items.iter().for_each(|item| put(&mut out, item));
    out.push_str("<g clip-path=\"url(#frame)\">\n");
    scene.curves.iter().for_each(|item| put(&mut out, item));
    out.push_str("</g>\n</svg>\n");
    out
}

/// Writing to a string cannot fail, so the results of `write!` carry nothing.
fn put(out: &mut String, item: &Item) {
    match item {
        Item::Line { points, colour, width, dashed } => {
            let dash = if *dashed { " stroke-dasharray=\"6 4\"" } else { "" };
            let places: Vec<String> = points.iter().map(|[x, y]| format!("{x:.2},{y:.2}")).collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>",
                places.join(" "),
                hex(*colour),
            );
        }
        Item::Marks { points, colour, radius } => {
            let _ = writeln!(out, "<g fill=\"{}\">", hex(*colour));
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
            // Capitals are 0.73 em high in the fonts asked for.
            let _ = writeln!(
                out,
                "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{}\"{weight}{turn}>{}</text>",
                size / 0.73,
                hex(*colour),
                spans(text, *size),
            );
        }
    }
}

fn spans(text: &str, size: f64) -> String {
    let mut out = String::new();
    let mut height = 0.0;
    for (level, part) in text_parts(text) {
        let wanted = match level {
            Level::Line => 0.0,
            Level::Raised => -0.5 * size,
            Level::Lowered => 0.25 * size,
        };
        // In numbers: not every reader of SVG knows percentages here.
        let small = match level {
            Level::Line => String::new(),
            Level::Raised | Level::Lowered => format!(" font-size=\"{:.1}\"", 0.72 * size / 0.73),
        };
        let _ = write!(out, "<tspan dy=\"{:.1}\"{small}>{}</tspan>", wanted - height, escape(part));
        height = wanted;
    }
    out
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Text as XML wants it; control characters, which it cannot hold, become blanks.
fn escape(text: &str) -> String {
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
