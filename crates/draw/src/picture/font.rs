//! A stroke font. Each glyph consists of a few lines and curves and can be drawn at any size.
//!
//! A glyph is given by its width and its strokes, which are separated by blanks. A stroke is a list
//! of points. A point has two characters, x and y, each a digit in base 36. y counts from 4 units
//! below the baseline: 4 is the baseline, c the height of a lower-case x, f that of capitals, and g
//! the top of ascenders. For example, `040f` is a vertical line from the baseline to the height of
//! capitals.
//!
//! A plain stroke is a polyline. `~` starts a quadratic B-spline from the first to the last point,
//! and `@` starts a closed B-spline around its points.
//!
//! Text may contain `^{...}` and `_{...}` for raised and lowered parts. A letter with an accent is
//! composed of two glyphs. A character without a glyph is replaced: raised digits such as `²` by
//! `^{2}`, quotation marks and ligatures by similar ones, and everything else by a question mark.
//! Names of species and units come from users and can contain any character.

use std::borrow::Cow;

use super::Image;
use super::stroke::Mask;

/// Height of capitals in font units.
const CAP_HEIGHT: f64 = 11.0;
/// Space between glyphs in font units.
const GAP: f64 = 3.2;
/// Half of the stroke width in font units.
const PEN: f64 = 0.68;
/// Relative size of raised and lowered text.
const SMALL: f64 = 0.72;

/// Vertical position of a part of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Level {
    Line,
    Raised,
    Lowered,
}

/// Splits text into its plain, raised and lowered parts.
pub(crate) fn text_parts(text: &str) -> Vec<(Level, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find("^{").into_iter().chain(rest.find("_{")).min() {
        let Some(length) = rest[open..].find('}') else { break };
        found.push((Level::Line, &rest[..open]));
        let level = if rest.as_bytes()[open] == b'^' { Level::Raised } else { Level::Lowered };
        found.push((level, &rest[open + 2..open + length]));
        rest = &rest[open + length + 1..];
    }
    found.push((Level::Line, rest));
    found.retain(|(_, part)| !part.is_empty());
    found
}

/// Returns the width of a text with capitals of `size` pixels.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let advance = |level, part: &str| {
        let scale = if level == Level::Line { 1.0 } else { SMALL };
        part.chars().map(|c| glyph(base_and_accent(c).0).0 + GAP).sum::<f64>() * scale
    };
    let total: f64 =
        text_parts(&drawable_text(text)).into_iter().map(|(level, part)| advance(level, part)).sum();
    (total - GAP).max(0.0) * size / CAP_HEIGHT
}

/// Draws text with its left end at `x` and its baseline at `y`, or rotated by 90 degrees if
/// `upwards`. A `halo` is a darker or lighter rim that keeps it readable over a picture.
pub(crate) fn write_text(
    image: &mut Image,
    text: &str,
    [x, y]: [f64; 2],
    size: f64,
    colour: [u8; 3],
    halo: Option<[u8; 3]>,
    upwards: bool,
) {
    let scale = size / CAP_HEIGHT;
    let lines = text_outline(text);
    let to_image = |p: [f64; 2]| {
        let (along, up) = (p[0] * scale, p[1] * scale);
        if upwards { [x - up, y - along] } else { [x + along, y - up] }
    };
    let (low, high) = (to_image([-2.0, -6.0]), to_image([text_width(text, CAP_HEIGHT) + 4.0, 15.0]));
    let left = low[0].min(high[0]).floor() - 2.0;
    let top = low[1].min(high[1]).floor() - 2.0;
    let size_of = |k: usize| ((high[k] - low[k]).abs() + 6.0) as usize;
    let radius = (PEN * scale).max(0.5);
    let mut draw = |pen: f64, colour, opacity| {
        let mut mask = Mask::new(left as i64, top as i64, size_of(0), size_of(1));
        for line in &lines {
            let points: Vec<_> = line.iter().map(|&p| to_image(p)).collect();
            match points[..] {
                [dot] => mask.draw_disc(dot, pen * 1.35),
                _ => mask.draw_polyline(&points, pen),
            }
        }
        image.paint_mask(&mask, colour, opacity);
    };
    if let Some(rim) = halo {
        draw(radius + 0.16 * size, rim, 0.35);
        draw(radius + 0.08 * size, rim, 0.5);
    }
    draw(radius, colour, 1.0);
}

/// Returns all strokes of a text as polylines, in font units from the start of the baseline.
fn text_outline(text: &str) -> Vec<Vec<[f64; 2]>> {
    let (mut lines, mut x) = (Vec::new(), 0.0);
    for (level, part) in text_parts(&drawable_text(text)) {
        let (scale, lift) = match level {
            Level::Line => (1.0, 0.0),
            Level::Raised => (SMALL, 5.5),
            Level::Lowered => (SMALL, -2.5),
        };
        for c in part.chars() {
            let (base, accent) = base_and_accent(c);
            let (width, strokes) = glyph(base);
            let mut add = |strokes: &str, right: f64, up: f64| {
                let set = |p: [f64; 2]| [x + scale * (right + p[0]), lift + scale * (up + p[1])];
                let strokes = strokes.split(' ').filter(|s| !s.is_empty());
                lines.extend(strokes.map(|s| stroke_points(s).into_iter().map(set).collect::<Vec<_>>()));
            };
            add(strokes, 0.0, 0.0);
            if let Some(accent) = accent {
                // Accents are 4 units wide and stand above capitals.
                let drop = if base.is_uppercase() || accent == ',' { 0.0 } else { 2.5 };
                add(accent_strokes(accent), 0.5 * (width - 4.0), -drop);
            }
            x += scale * (width + GAP);
        }
    }
    lines
}

/// Returns the points of one stroke, with curves as polylines.
fn stroke_points(stroke: &str) -> Vec<[f64; 2]> {
    let (kind, digits) = match stroke.as_bytes() {
        [kind @ (b'~' | b'@'), rest @ ..] => (*kind, rest),
        all => (b' ', all),
    };
    let digit = |b: u8| f64::from(char::from(b).to_digit(36).unwrap_or(0));
    let points: Vec<[f64; 2]> =
        digits.chunks_exact(2).map(|pair| [digit(pair[0]), digit(pair[1]) - 4.0]).collect();
    let middle = |a: [f64; 2], b: [f64; 2]| [0.5 * (a[0] + b[0]), 0.5 * (a[1] + b[1])];
    let n = points.len();
    let mut curve = Vec::new();
    let mut arc = |a: [f64; 2], control: [f64; 2], b: [f64; 2]| {
        for step in 0..=8 {
            let t = f64::from(step) / 8.0;
            let along = |k: usize| (1.0 - t).powi(2) * a[k] + 2.0 * t * (1.0 - t) * control[k] + t * t * b[k];
            curve.push([along(0), along(1)]);
        }
    };
    match kind {
        b'~' => {
            for i in 1..n - 1 {
                let start = if i == 1 { points[0] } else { middle(points[i - 1], points[i]) };
                let end = if i == n - 2 { points[n - 1] } else { middle(points[i], points[i + 1]) };
                arc(start, points[i], end);
            }
            curve
        }
        b'@' => {
            for i in 0..n {
                let (before, after) = (points[(i + n - 1) % n], points[(i + 1) % n]);
                arc(middle(before, points[i]), points[i], middle(points[i], after));
            }
            curve
        }
        _ => points,
    }
}

/// Letters with an accent, each followed by the letter and the accent.
const ACCENTED: &str = "ÀA`ÁA´ÂA^ÃA~ÄA¨ÅA°ÇC,ÈE`ÉE´ÊE^ËE¨ÌI`ÍI´ÎI^ÏI¨ÑN~ÒO`ÓO´ÔO^ÕO~ÖO¨ÙU`ÚU´ÛU^ÜU¨ÝY´\
                        àa`áa´âa^ãa~äa¨åa°çc,èe`ée´êe^ëe¨ìı`íı´îı^ïı¨ñn~òo`óo´ôo^õo~öo¨ùu`úu´ûu^üu¨ýy´ÿy¨\
                        ĀA-āa-ČCˇčcˇĎDˇĚEˇěeˇĒE-ēe-ŇNˇňnˇŌO-ōo-ŘRˇřrˇŠSˇšsˇŮU°ůu°ŪU-ūu-ŽZˇžzˇ\u{212b}A°";

/// Returns the letter and the accent of a character. Most have no accent.
fn base_and_accent(c: char) -> (char, Option<char>) {
    if c.is_ascii() {
        return (c, None);
    }
    let mut entries = ACCENTED.chars();
    while let (Some(letter), Some(base), Some(accent)) = (entries.next(), entries.next(), entries.next()) {
        if letter == c {
            return (base, Some(accent));
        }
    }
    (c, None)
}

/// Returns the strokes of an accent above a capital, 4 units wide.
fn accent_strokes(accent: char) -> &'static str {
    match accent {
        '`' => "0j3h",
        '´' => "1h4j",
        '^' => "0h2j4h",
        'ˇ' => "0j2h4j",
        '~' => "~0h1j3h4j",
        '¨' => "0i 4i",
        '°' => "@0j4j4g0g",
        '-' => "0i4i",
        // A cedilla, below the baseline.
        _ => "~24333010",
    }
}

/// Returns true if the font has all characters of a text. Others are drawn as question marks.
#[cfg(test)]
fn is_drawable(c: char) -> bool {
    c == '?' || glyph(base_and_accent(c).0).1 != UNKNOWN && drawable_text(&c.to_string()) == c.to_string()
}

/// Replaces the characters that have no glyph.
fn drawable_text(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut drawable = String::with_capacity(text.len());
    for c in text.chars() {
        let raised = "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().position(|digit| digit == c);
        let lowered = "₀₁₂₃₄₅₆₇₈₉".chars().position(|digit| digit == c);
        match (c, raised, lowered) {
            (_, Some(digit), _) => drawable.push_str(&format!("^{{{digit}}}")),
            (_, _, Some(digit)) => drawable.push_str(&format!("_{{{digit}}}")),
            ('⁻', ..) => drawable.push_str("^{\u{2212}}"),
            ('ß', ..) => drawable.push_str("ss"),
            ('æ' | 'Æ', ..) => drawable.push_str("ae"),
            ('œ' | 'Œ', ..) => drawable.push_str("oe"),
            ('ø', ..) => drawable.push('o'),
            ('Ø', ..) => drawable.push('O'),
            ('‘' | '’' | '′', ..) => drawable.push('\''),
            ('“' | '”' | '″' | '«' | '»', ..) => drawable.push('"'),
            ('—', ..) => drawable.push('\u{2013}'),
            ('‐' | '‑', ..) => drawable.push('-'),
            ('…', ..) => drawable.push_str("..."),
            ('⋅' | '•', ..) => drawable.push('\u{b7}'),
            // Accents without a letter, and marks of the writing direction, have no width.
            ('\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}', ..) => {}
            (c, ..) if c.is_whitespace() || c.is_control() => drawable.push(' '),
            (c, ..) if glyph(base_and_accent(c).0).1 == UNKNOWN => drawable.push('?'),
            (c, ..) => drawable.push(c),
        }
    }
    Cow::Owned(drawable)
}

/// Strokes of a character that the font does not have.
const UNKNOWN: &str = "~0d0f6f6a3a37 34";

/// Returns width and strokes of a character.
fn glyph(c: char) -> (f64, &'static str) {
    match c {
        ' ' => (1.6, ""),
        '!' => (0.0, "0f08 04"),
        '"' => (3.0, "0g0d 3g3d"),
        '#' => (9.0, "243f 647f 0898 1c9c"),
        '$' => (8.0, "~8c8e0e0a89850507 4g43"),
        '%' => (10.0, "@0f4f4a0a @69a9a464 149f"),
        '&' => (9.0, "~942b2f6f6b090484 99"),
        '\'' => (0.0, "0g0d"),
        '(' => (3.0, "~3h0d0532"),
        ')' => (3.0, "~0h3d3502"),
        '*' => (6.0, "3g3a 0e6c 0c6e"),
        '+' => (8.0, "0888 4c44"),
        ',' => (1.0, "1402"),
        '-' => (4.0, "0848"),
        '.' => (0.0, "04"),
        '/' => (5.0, "035g"),
        '0' => (7.0, "@0f7f7a79740409 0a"),
        '1' => (7.0, "1d4f44"),
        '2' => (7.0, "~0d0f7f7a04 0474"),
        '3' => (7.0, "~0d0f7f7a2a ~2a7a740406"),
        '4' => (7.0, "545f0777"),
        '5' => (7.0, "6f1f0a ~0a1c7c740406"),
        '6' => (7.0, "@0b7b7404 ~6f1f0b07"),
        '7' => (7.0, "0f7f24"),
        '8' => (7.0, "@0f7f7a0a @0a7a7404"),
        '9' => (7.0, "@0f7f7808 ~1464787c"),
        ':' => (0.0, "04 0b"),
        ';' => (1.0, "1402 1b"),
        '<' => (7.0, "7c0874"),
        '=' => (8.0, "0a8a 0686"),
        '>' => (7.0, "0c7804"),
        '?' => (6.0, "~0d0f6f6a3a37 34"),
        '@' => (11.0, "~a3030fbfb6868c @3c8c8636"),
        'A' => (8.0, "044f84 1777"),
        'B' => (8.0, "040f ~0f4f7f7a4a0a ~0a4a8a844404"),
        'C' => (8.0, "~8d8f0f048486"),
        'D' => (8.0, "040f ~0f3f8f843404"),
        'E' => (7.0, "7f0f0474 0a6a"),
        'F' => (7.0, "7f0f04 0a6a"),
        'G' => (8.0, "~8d8f0f048489 8959"),
        'H' => (8.0, "040f 848f 0a8a"),
        'I' => (0.0, "040f"),
        'J' => (6.0, "~6f69640407"),
        'K' => (7.0, "040f 7f09 2b74"),
        'L' => (6.0, "0f0464"),
        'M' => (10.0, "040f56afa4"),
        'N' => (8.0, "040f848f"),
        'O' => (9.0, "@0f9f9404"),
        'P' => (8.0, "040f ~0f4f8f894909"),
        'Q' => (9.0, "@0f9f9404 5793"),
        'R' => (8.0, "040f ~0f4f8f894909 4984"),
        'S' => (8.0, "~8d8f0f0a89840406"),
        'T' => (8.0, "0f8f 4f44"),
        'U' => (8.0, "~0f090484898f"),
        'V' => (8.0, "0f448f"),
        'W' => (12.0, "0f346f94cf"),
        'X' => (8.0, "0f84 048f"),
        'Y' => (8.0, "0f4a8f 4a44"),
        'Z' => (8.0, "0f8f0484"),
        '[' => (3.0, "3g0g0232"),
        '\\' => (5.0, "0g53"),
        ']' => (3.0, "0g3g3202"),
        '^' => (6.0, "0b3f6b"),
        '_' => (7.0, "0373"),
        '`' => (2.0, "0g2d"),
        'a' => (6.0, "~0b0c6c6964 ~693909046467"),
        'b' => (7.0, "040g @0c7c7404"),
        'c' => (6.0, "~6a6c0c046466"),
        'd' => (7.0, "747g @0c7c7404"),
        'e' => (7.0, "0878 ~787c0c047476"),
        'f' => (5.0, "~5g2g2c24 0c5c"),
        'g' => (7.0, "@0c7c7404 ~7c75700002"),
        'h' => (6.0, "040g ~080c6c6864"),
        'i' => (0.0, "040c 0f"),
        'j' => (2.0, "~2c232000 2f"),
        'k' => (6.0, "040g 6c08 2964"),
        'l' => (2.0, "~0g070424"),
        'm' => (10.0, "040c ~080c5c5854 ~585caca8a4"),
        'n' => (6.0, "040c ~080c6c6864"),
        'o' => (7.0, "@0c7c7404"),
        'p' => (7.0, "000c @0c7c7404"),
        'q' => (7.0, "707c @0c7c7404"),
        'r' => (4.0, "040c ~080c4c"),
        's' => (6.0, "~6b6c0c0868640405"),
        't' => (5.0, "~2f282454 0c5c"),
        'u' => (6.0, "~0c08046468 6c64"),
        'v' => (6.0, "0c346c"),
        'w' => (9.0, "0c24 245c 5c74 749c"),
        'x' => (6.0, "0c64 046c"),
        'y' => (6.0, "0c34 6c3421 ~342100"),
        'z' => (6.0, "0c6c0464"),
        '{' => (4.0, "~4g2g2c2909 ~0929262242"),
        '|' => (0.0, "020g"),
        '}' => (4.0, "~0g2g2c2949 ~4929262202"),
        '~' => (8.0, "~070a4a47878a"),
        '\u{d7}' => (6.0, "0b65 056b"),
        '\u{b7}' => (0.0, "08"),
        '\u{b0}' => (3.0, "@0g3g3d0d"),
        '\u{b1}' => (8.0, "0a8a 4e46 0484"),
        '\u{2212}' => (7.0, "0878"),
        '\u{2013}' => (6.0, "0868"),
        '\u{2299}' | '\u{2609}' => (8.0, "@0c8c8404 48"),
        '\u{394}' => (8.0, "044f8404"),
        '\u{3a3}' => (7.0, "7f0f4a0474"),
        'ı' => (0.0, "040c"),
        '∞' => (12.0, "@0b6b6505 @6bcbc565"),
        '≈' => (8.0, "~050848458588 ~090c4c49898c"),
        '≤' => (7.0, "7e0a76 0474"),
        '≥' => (7.0, "0e7a06 0474"),
        '→' => (10.0, "08a8 6ba865"),
        '√' => (8.0, "0a2a448g"),
        '‰' => (16.0, "@0f4f4a0a @69a9a464 @c9g9g4c4 149f"),
        '€' => (8.0, "~8d8f1f148486 0b6b 0868"),
        'Γ' => (7.0, "040f7f"),
        'Λ' => (8.0, "044f84"),
        'Π' => (8.0, "040f8f84"),
        'Φ' => (8.0, "@0d8d8606 4f44"),
        'Ψ' => (10.0, "~0f0858 ~afa858 5f54"),
        'Ω' => (9.0, "~34080f9f9864 0434 6494"),
        'α' => (8.0, "@0c6c6404 ~7c676484"),
        'β' => (7.0, "000d ~0d0g6g6a2a ~2a7a740406"),
        'γ' => (6.0, "0c34 6c3430"),
        'δ' => (6.0, "@0b6b6404 ~3b1e2g5g"),
        'ε' => (5.0, "~5b5c0c0838 ~3808045455"),
        'η' => (6.0, "040c ~080c6c6860"),
        'θ' => (6.0, "@0g6g6404 0a6a"),
        'λ' => (6.0, "0g64 3a04"),
        'κ' => (6.0, "040c 6c08 2964"),
        'ν' => (6.0, "0c346c"),
        'ξ' => (5.0, "~5g0g0c4c ~4c0c0848 ~4808045452"),
        'μ' | '\u{b5}' => (6.0, "000c ~0c08046468 6c64"),
        'π' => (7.0, "0c7c 2c24 5c54"),
        'ρ' => (7.0, "@0c7c7404 0800"),
        'σ' => (8.0, "@0c6c6404 3c8c"),
        'τ' => (6.0, "0c6c ~3c373454"),
        'φ' => (8.0, "@0c8c8404 4f41"),
        'χ' => (6.0, "0c60 006c"),
        'ψ' => (8.0, "~0c04848c 4f40"),
        'ω' => (9.0, "~1c044448 ~8c944448"),
        _ => (6.0, UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_printable_character_has_strokes_inside_its_box() {
        for c in (' '..='~').chain("×·°±−∞≈≤≥→√‰€ΓΔΛΠΣΦΨΩαβγδεηθκλμνξπρστφχψω⊙".chars())
        {
            let (width, strokes) = glyph(c);
            assert!(c == ' ' || !strokes.is_empty(), "{c}");
            assert!(is_drawable(c), "{c} is missing");
            for line in text_outline(&c.to_string()) {
                assert!(!line.is_empty(), "{c}: {strokes}");
                for [x, y] in line {
                    assert!((0.0..=width).contains(&x) && (-4.0..=13.0).contains(&y), "{c}: {x}, {y}");
                }
            }
        }
    }

    #[test]
    fn accents_are_above_their_letters() {
        for c in ACCENTED.chars().step_by(3) {
            let (base, accent) = base_and_accent(c);
            assert!(accent.is_some() && is_drawable(c), "{c}");
            let top = |text: &str| {
                let lines = text_outline(text);
                lines.iter().flatten().fold(f64::MIN, |top, point| top.max(point[1]))
            };
            let (letter, whole) = (top(&base.to_string()), top(&c.to_string()));
            assert!(accent == Some(',') || (whole > letter + 0.5 && whole <= 15.0), "{c}: {letter}, {whole}");
            assert_eq!(text_width(&c.to_string(), 11.0), text_width(&base.to_string(), 11.0));
        }
    }

    /// Texts outside of tests and comments, in the crates whose texts reach pictures and plots.
    #[test]
    fn every_character_in_the_texts_of_the_code_is_drawable() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut folders, mut characters) = (Vec::new(), BTreeMap::new());
        let names = ["model", "formats", "draw", "engine", "gravity", "fluids", "fields", "measure"];
        folders.extend(names.map(|name| crates.join(name).join("src")));
        folders.push(crates.join("../lab/src"));
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap_or_default();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                // Texts with characters that no picture shows: those of parsers and of this file.
                let is_text = path.extension().is_some_and(|extension| extension == "rs")
                    && !["font.rs", "xml.rs", "svg.rs", "tests.rs"].iter().any(|name| path.ends_with(name));
                for c in lines.filter(|_| is_text).flat_map(str::chars).filter(|c| !c.is_ascii()) {
                    characters.entry(c).or_insert_with(|| path.clone());
                }
            }
        }
        assert!(characters.contains_key(&'Å') && characters.contains_key(&'µ'), "{characters:?}");
        let is_replaced = |c: char| !drawable_text(&c.to_string()).contains('?');
        let missing: Vec<_> = characters.iter().filter(|(c, _)| !is_replaced(**c)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn characters_without_a_glyph_are_replaced() {
        for (text, expected) in [
            ("Ar–Kr², ×10⁻¹²", "Ar–Kr^{2}, ×10^{\u{2212}}^{1}^{2}"),
            ("“Straße”…", "\"Strasse\"..."),
            ("H₂O 水\u{1f600}\t\u{202e}e\u{301}", "H_{2}O ?? e"),
            ("ASCII ~ text?", "ASCII ~ text?"),
        ] {
            assert_eq!(drawable_text(text), expected);
        }
        assert_eq!(text_width("水", 11.0), text_width("?", 11.0));
    }

    #[test]
    fn raised_and_lowered_parts_are_split() {
        let expected =
            [(Level::Line, "10"), (Level::Raised, "-6"), (Level::Line, " M"), (Level::Lowered, "s")];
        assert_eq!(text_parts("10^{-6} M_{s}"), expected);
        assert_eq!(text_parts("a^{b"), [(Level::Line, "a^{b")]);
        assert!(text_parts("").is_empty());
        assert!(text_width("10^{-6}", 11.0) < text_width("10-6", 11.0));
    }

    #[test]
    fn text_stays_in_the_image() {
        let mut image = Image::filled(20, 10, [0; 3]);
        write_text(&mut image, "far beyond the edge", [-30.0, 5.0], 30.0, [255; 3], Some([9; 3]), false);
        write_text(&mut image, "", [0.0, 0.0], 10.0, [255; 3], None, true);
        assert_eq!(image.rgb.len(), 600);
    }
}
