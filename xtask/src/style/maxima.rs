//! Finds maxima that drop NaN.
//!
//! `f64::max` returns the other number if one is NaN. A largest error that is folded with it is 0 if
//! every error is NaN, so every check of that error passes. `orrery_model::analysis::max_or_nan`
//! returns NaN. Folds of floating-point numbers with `max` are therefore refused, apart from those
//! of [`ALLOWED`].

/// Folds that may drop NaN: the start of the file's name, and the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/cli/src/commands/segy.rs", "ranges of the finite samples; the fold starts with NaN"),
    ("crates/device/src/ceiling/caches.rs", "measured speeds; `device` does not depend on `model`"),
    ("crates/device/tests/textures.rs", "texels of the test; `device` does not depend on `model`"),
    ("crates/draw/src/picture/", "sizes of text and ranges of finite numbers on a picture"),
    ("crates/draw/src/plot/layout.rs", "widths of text"),
    ("crates/draw/src/plot/names.rs", "widths of text"),
    ("crates/draw/src/plot/seismogram.rs", "range of the finite samples of a plot"),
    (
        "crates/formats/src/fluid/builder.rs",
        "box around the coordinates of a file, which is checked with its particles",
    ),
    ("crates/formats/src/snapshot.rs", "range of the finite values"),
    ("crates/gravity/src/bodies/", "largest acceleration of a step; `check_finite` finds NaN"),
    ("crates/gravity/src/resolution.rs", "bounds of coordinates that have been checked"),
    ("crates/gravity/src/tree/groups.rs", "bounds of positions, which are finite"),
    ("crates/gravity/src/tree/morton.rs", "bounds of positions, which are finite"),
    ("lab/src/ladder/plot.rs", "range of the axis of a plot"),
    ("crates/measure/src/roofline.rs", "range of the axis of a plot"),
    ("crates/model/src/analysis/field.rs", "range of the finite values"),
    ("crates/model/src/analysis/max.rs", "the documentation of `max_or_nan` quotes the pattern"),
    ("crates/model/src/ic/speed.rs", "bound of a distribution whose value may overflow"),
    ("xtask/src/style/", "this check and its test quote the pattern"),
];

/// Returns the lines of a Rust file, counted from 1, whose `fold` or `reduce` drops NaN.
pub fn dropping_nan(name: &str, text: &str) -> Vec<usize> {
    if !name.ends_with(".rs") || ALLOWED.iter().any(|(start, _)| name.starts_with(start)) {
        return Vec::new();
    }
    let starts = [".fold(", ".reduce("]
        .into_iter()
        .flat_map(|call| text.match_indices(call).map(move |(at, _)| at + call.len()).collect::<Vec<_>>());
    let mut lines: Vec<usize> = starts
        .filter(|&start| is_maximum_of_floats(arguments(&text[start..])))
        .map(|start| text[..start].lines().count())
        .collect();
    lines.sort_unstable();
    lines
}

/// Returns the text up to the parenthesis that closes the call.
fn arguments(text: &str) -> &str {
    let mut open = 1;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return &text[..at];
        }
    }
    text
}

/// True for a fold with `f64::max`, or with a closure that calls `max` and whose start or type is a
/// floating-point number.
fn is_maximum_of_floats(arguments: &str) -> bool {
    if arguments.contains("is_nan") {
        return false;
    }
    let names_type = arguments.contains("f64") || arguments.contains("f32");
    let is_function = ["f64::max", "f32::max"].iter().any(|function| has_path(arguments, function));
    is_function || (arguments.contains(".max(") && (names_type || has_decimal_point(arguments)))
}

/// True if a path such as `f64::max` is a whole word, unlike `f64::maximum`.
fn has_path(text: &str, path: &str) -> bool {
    text.match_indices(path)
        .any(|(at, _)| !text[at + path.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// True if the text has a number such as `0.0`.
fn has_decimal_point(text: &str) -> bool {
    text.as_bytes()
        .windows(3)
        .any(|window| window[0].is_ascii_digit() && window[1] == b'.' && window[2].is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_of_floats_are_found() {
        for line in [
            "let largest = errors.fold(0.0, f64::max);",
            "errors.par_iter().map(f64::abs).reduce(|| 0.0, f64::max)",
            "errors.fold(f32::MIN, f32::max)",
            "errors.copied().reduce(f64::max).unwrap()",
            "errors.iter().fold(0.0, |largest: f64, error| largest.max(error.abs()))",
            "rows.iter().fold(0.0, |largest, row| row.error.max(largest))",
            "errors.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (x.min(low), x.max(high)))",
        ] {
            assert_eq!(dropping_nan("a.rs", &format!("fn f() {{\n    {line}\n}}\n")), [2], "{line}");
        }
        let long =
            "let largest = errors\n    .fold(\n        0.0,\n        f64::max,\n    );\n.fold(0.0, f64::max)";
        assert_eq!(dropping_nan("a.rs", long), [2, 6]);
    }

    #[test]
    fn other_folds_are_not_found() {
        for line in [
            "errors.fold(0.0, max_or_nan)",
            "errors.fold(0.0, f64::maximum)",
            "values.fold(f64::INFINITY, f64::min)",
            "counts.fold(10, usize::max)",
            "counts.fold(0, |most, count| count.max(most))",
            "a.fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) })",
            "transport.all_reduce(&[seconds], f64::max)",
            "let larger = f64::max(a, b);",
        ] {
            assert_eq!(dropping_nan("a.rs", line), [0; 0], "{line}");
        }
        let line = "errors.fold(0.0, f64::max)";
        assert_eq!(dropping_nan("a.md", line), [0; 0]);
        assert_eq!(dropping_nan("crates/formats/src/snapshot.rs", line), [0; 0]);
    }
}
