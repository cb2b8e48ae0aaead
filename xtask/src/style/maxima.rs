//! Finds maxima that drop NaN.
//!
//! `f64::max` returns the other number if one is NaN. A largest error that is folded with it is 0 if
//! every error is NaN, so every check of that error passes. `orrery_model::analysis::max_or_nan`
//! returns NaN. Folds of floating-point numbers with `max` are therefore refused, and so are loops
//! with `largest = largest.max(error)`, apart from those of [`ALLOWED`].

/// Maxima that may drop NaN: the start of the file's name, and the reason.
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
    ("crates/fluids/src/host/motion.rs", "distances are differences of integers, which are never NaN"),
    ("crates/gravity/src/bodies/", "largest acceleration of a step; `check_finite` finds NaN"),
    ("crates/gravity/src/resolution.rs", "bounds of coordinates that have been checked"),
    ("crates/gravity/src/solver/near.rs", "`max` of registers, for positions, which are finite"),
    ("crates/gravity/src/tree/groups.rs", "bounds of positions, which are finite"),
    ("crates/gravity/src/tree/morton.rs", "bounds of positions, which are finite"),
    ("lab/src/ladder/plot.rs", "range of the axis of a plot"),
    ("crates/measure/src/roofline.rs", "range of the axis of a plot"),
    ("crates/model/src/analysis/field.rs", "range of the finite values"),
    ("crates/model/src/analysis/max.rs", "the documentation of `max_or_nan` quotes the pattern"),
    ("crates/model/src/ic/speed.rs", "bound of a distribution whose value may overflow"),
    ("xtask/src/style/", "this check and its test quote the pattern"),
];

/// Returns the lines of a Rust file, counted from 1, whose `fold`, `reduce` or loop drops NaN.
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
    lines.extend(running_maxima(text));
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Returns the lines, counted from 1, with `largest = largest.max(error)` for a floating-point
/// number `largest`. A bound such as `length.max(1.0)` is no maximum of several numbers.
fn running_maxima(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let is_running = |&line: &usize| {
        let Some((name, value)) = lines[line].trim_start().split_once(" = ") else { return false };
        let Some(rest) = value.strip_prefix(name).and_then(|rest| rest.strip_prefix(".max(")) else {
            return false;
        };
        let mut declarations = lines[..line].iter().rev();
        let is_float = declarations.find_map(|declaration| declares_float(declaration, name));
        !rest.starts_with(|c: char| c.is_ascii_digit()) && is_float == Some(true)
    };
    (0..lines.len()).filter(is_running).map(|line| line + 1).collect()
}

/// Returns whether the line declares `mut name` as a floating-point number, or None if it does not
/// declare the name. The line may declare a tuple of several names.
fn declares_float(line: &str, name: &str) -> Option<bool> {
    let declares = |text: &str| has_path(text, &format!("mut {name}"));
    if !declares(line) {
        return None;
    }
    let (names, values) = line.split_once('=').unwrap_or((line, ""));
    let mut pairs = names.split(',').zip(values.split(','));
    let is_tuple = names.matches(',').count() == values.matches(',').count();
    let own = pairs.find(|(name, _)| is_tuple && declares(name));
    Some(own.map_or_else(|| names_floats(line), |(name, value)| names_floats(name) || names_floats(value)))
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
    let is_function = ["f64::max", "f32::max"].iter().any(|function| has_path(arguments, function));
    is_function || (arguments.contains(".max(") && names_floats(arguments))
}

/// True if the text has a floating-point type or a number such as `0.0`.
fn names_floats(text: &str) -> bool {
    text.contains("f64") || text.contains("f32") || has_decimal_point(text)
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
    fn running_maxima_of_floats_are_found() {
        let running = |declaration: &str, update: &str| {
            dropping_nan("a.rs", &format!("let {declaration};\nfor error in errors {{\n    {update}\n}}\n"))
        };
        for declaration in
            ["mut largest = 0.0", "mut largest: f64 = start", "(mut sum, mut largest) = (0.0, 0.0)"]
        {
            assert_eq!(running(declaration, "largest = largest.max(error);"), [3], "{declaration}");
            assert_eq!(running(declaration, "largest = max_or_nan(largest, error);"), [0; 0]);
            assert_eq!(running(declaration, "longest = largest.max(error);"), [0; 0]);
        }
        for declaration in ["mut largest = 0", "mut largest_sum = 0.0", "(mut sum, mut largest) = (0.0, 0)"] {
            assert_eq!(running(declaration, "largest = largest.max(error);"), [0; 0], "{declaration}");
        }
        assert_eq!(running("mut largest = 0.0", "largest = largest.max(1.0);"), [0; 0]);
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
