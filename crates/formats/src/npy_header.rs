//! The dictionary in the header of an `.npy` file, for example
//! `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`.
//!
//! It is a Python literal, and numpy accepts exactly these three keys, a boolean and a tuple. This
//! parser accepts no header that numpy refuses: a damaged header must not be read as another array.

use crate::text::{MAX_QUOTED_CHARS, shorten_for_message};

/// Largest number of dimensions, as in numpy.
const MAX_DIMENSIONS: usize = 64;

/// Found and expected content of a header.
pub type HeaderFault = (String, &'static str);

/// Content of a header.
#[derive(Debug, PartialEq)]
pub struct NpyHeader {
    /// Type of the values, such as `<f8`.
    pub descr: String,
    /// True if the first index varies fastest.
    pub fortran_order: bool,
    /// Extents of the dimensions.
    pub shape: Vec<u64>,
}

/// Parses the dictionary of a header.
pub fn parse_header(bytes: &[u8]) -> Result<NpyHeader, HeaderFault> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| ("a header that is not text".to_owned(), DICTIONARY))?;
    let mut rest = Rest(text);
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    rest.expect('{', DICTIONARY)?;
    while !rest.starts_with('}') {
        let key = rest.text(DICTIONARY)?;
        rest.expect(':', "a colon after each key")?;
        let is_first = match key {
            "descr" => descr.replace(rest.text("a type in quotes in descr")?.to_owned()).is_none(),
            "fortran_order" => fortran_order.replace(rest.boolean()?).is_none(),
            "shape" => shape.replace(rest.shape()?).is_none(),
            other => return Err((format!("the key {}", quoted(other)), KEYS)),
        };
        if !is_first {
            return Err((format!("the key {} twice", quoted(key)), KEYS));
        }
        if !rest.starts_with('}') {
            rest.expect(',', "a comma between the keys")?;
        }
    }
    rest.expect('}', DICTIONARY)?;
    if !rest.next().is_empty() {
        return Err((format!("{} behind the dictionary", quoted(rest.next())), DICTIONARY));
    }
    let missing = |key: &str| (format!("a header without {key}"), KEYS);
    Ok(NpyHeader {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

const DICTIONARY: &str = "a header in braces, as numpy writes it";
const KEYS: &str = "the keys descr, fortran_order and shape";
const SHAPE: &str = "a shape as numpy writes it, for example (3, 4)";

fn quoted(text: &str) -> String {
    format!("'{}'", shorten_for_message(text, MAX_QUOTED_CHARS))
}

/// Text that was not parsed yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Returns the text from the next character on that is not a blank.
    fn next(&mut self) -> &'a str {
        self.0 = self.0.trim_start_matches([' ', '\t', '\r', '\n']);
        self.0
    }

    fn starts_with(&mut self, expected: char) -> bool {
        self.next().starts_with(expected)
    }

    fn fault(&mut self, expected: &'static str) -> HeaderFault {
        match self.next() {
            "" => ("a header that ends too early".to_owned(), expected),
            next => (quoted(next), expected),
        }
    }

    fn expect(&mut self, character: char, expected: &'static str) -> Result<(), HeaderFault> {
        match self.next().strip_prefix(character) {
            Some(rest) => self.0 = rest,
            None => return Err(self.fault(expected)),
        }
        Ok(())
    }

    /// Takes a text in quotes. No name or type needs an escape sequence.
    fn text(&mut self, expected: &'static str) -> Result<&'a str, HeaderFault> {
        let next = self.next();
        let quote = next.chars().next().filter(|c| ['\'', '"'].contains(c));
        let Some((text, rest)) = quote.and_then(|quote| next[1..].split_once(quote)) else {
            return Err(self.fault(expected));
        };
        if text.contains(['\\', '\n', '\r']) {
            return Err(self.fault(expected));
        }
        self.0 = rest;
        Ok(text)
    }

    /// Takes a word of letters, digits, dots and signs.
    fn word(&mut self) -> &'a str {
        let next = self.next();
        let is_part = |c: char| c.is_alphanumeric() || ['_', '.', '+', '-'].contains(&c);
        let end = next.find(|c| !is_part(c)).unwrap_or(next.len());
        self.0 = &next[end..];
        &next[..end]
    }

    fn boolean(&mut self) -> Result<bool, HeaderFault> {
        let before = Rest(self.0).next();
        match self.word() {
            "True" => Ok(true),
            "False" => Ok(false),
            "" => Err((format!("{} as fortran_order", quoted(before)), "True or False")),
            other => Err((format!("{} as fortran_order", quoted(other)), "True or False")),
        }
    }

    /// Takes a tuple of integers >= 0. A tuple of one has a comma.
    fn shape(&mut self) -> Result<Vec<u64>, HeaderFault> {
        let start = self.next();
        let fault = |rest: &Self| {
            let taken = &start[..start.len() - rest.0.len()];
            let end = rest.0.find(')').map_or(0, |end| end + 1);
            let found = if taken.is_empty() { start } else { &start[..taken.len() + end] };
            (format!("the shape {}", quoted(found.trim_end())), SHAPE)
        };
        self.expect('(', SHAPE).map_err(|_| fault(self))?;
        let (mut shape, mut ends_with_comma) = (Vec::new(), true);
        while !self.starts_with(')') {
            let word = self.word();
            let is_decimal = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let has_leading_zero = word.len() > 1 && word.starts_with('0');
            let extent = word.parse().ok().filter(|_| is_decimal && !has_leading_zero && ends_with_comma);
            shape.push(extent.ok_or_else(|| fault(self))?);
            ends_with_comma = self.starts_with(',');
            if ends_with_comma {
                self.expect(',', SHAPE)?;
            }
        }
        self.expect(')', SHAPE)?;
        if shape.len() > MAX_DIMENSIONS {
            return Err((format!("{} dimensions", shape.len()), "at most 64"));
        }
        if shape.len() == 1 && !ends_with_comma {
            return Err((format!("the shape '({})'", shape[0]), SHAPE));
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NpyHeader, HeaderFault> {
        parse_header(text.as_bytes())
    }

    fn with(shape: &str) -> String {
        format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}   \n")
    }

    /// Headers as numpy and other programs write them.
    #[test]
    fn headers_of_other_programs_are_read() {
        let expected = |shape: &[u64]| NpyHeader {
            descr: "<f8".to_owned(),
            fortran_order: false,
            shape: shape.to_vec(),
        };
        for (shape, extents) in [
            ("(3, 4)", &[3, 4][..]),
            ("(3,4,)", &[3, 4]),
            ("( 3 ,)", &[3]),
            ("()", &[]),
            ("(0, 18446744073709551615)", &[0, u64::MAX]),
        ] {
            assert_eq!(parse(&with(shape)), Ok(expected(extents)), "{shape}");
        }
        let compact = "{\"shape\":(3,4),\"fortran_order\":True,\"descr\":\"<f8\"}";
        assert_eq!(parse(compact), Ok(NpyHeader { fortran_order: true, ..expected(&[3, 4]) }));
        let lines = with("(3, 4)").replace(", '", ",\n '");
        assert_eq!(parse(&lines), Ok(expected(&[3, 4])));
    }

    /// numpy 2.4 refuses these, apart from the key that occurs twice, a signed number and an
    /// escape sequence.
    #[test]
    fn headers_that_numpy_refuses_are_refused() {
        let message = |text: &str| {
            let (got, expected) = parse(text).expect_err(text);
            format!("got {got}, expected {expected}")
        };
        let whole = with("(3, 4)");
        for value in ["1", "0", "None", "false", "Falsehood", "'False'", "False.", "-1"] {
            let found = message(&whole.replace("False", value));
            assert!(found.ends_with("as fortran_order, expected True or False"), "{value}: {found}");
        }
        assert_eq!(message(&whole.replace("False", "1")), "got '1' as fortran_order, expected True or False");
        for shape in [
            "(3,,4)",
            "(,3,4)",
            "(12)",
            "[3, 4]",
            "(3, +4)",
            "(-3, -4)",
            "(03, 4)",
            "(3, 4.0)",
            "(True, 12)",
            "(3 4)",
            "((3, 4))",
            "(3, 4",
            "12",
            "(3, 18446744073709551616)",
            "(3, 4,,)",
            "(0x3,)",
            "(3, '4')",
            "",
        ] {
            let found = message(&with(shape));
            assert!(found.ends_with(SHAPE) && found.starts_with("got the shape '"), "{shape}: {found}");
        }
        assert!(message(&with("(3,,4)")).starts_with("got the shape '(3,,4)', "));
        let dimensions = format!("({})", "1, ".repeat(65));
        assert_eq!(message(&with(&dimensions)), "got 65 dimensions, expected at most 64");
        for (text, expected) in [
            (whole.replace("'descr': '<f8', ", ""), "got a header without descr, expected the keys "),
            (whole.replace("'fortran_order': False, ", ""), "got a header without fortran_order, "),
            (whole.replace("'shape': (3, 4), ", ""), "got a header without shape, "),
            (whole.replace('}', "'x': 1}"), "got the key 'x', expected the keys "),
            (whole.replace("'shape'", "'descr': '<f4', 'shape'"), "got the key 'descr' twice, "),
            (whole.replace("'descr': '<f8'", "'descr': [('a', '<f8')]"), "got '[('a', '<f8')], "),
            (whole.replace("'<f8'", "b'<f8'"), "got 'b'<f8', "),
            (whole.replace("<f8", "\\x3cf8"), "got ''\\x3cf8', "),
            (whole.replace("'<f8', ", "'<f8' "), "got ''fortran_order'"),
            (whole.replace("'descr':", "'descr'"), "got ''<f8'"),
            (whole.replace("), }", "),, }"), "got ', }"),
            (whole.replace('}', ""), "got a header that ends too early, "),
            (whole.replace('}', "}}"), "got '}"),
            (format!("x{whole}"), "got 'x{"),
            (whole.replace('{', "("), "got '('descr'"),
            (String::new(), "got a header that ends too early, "),
        ] {
            let found = message(&text);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
        assert!(parse_header(b"\xff{").is_err());
    }
}
