//! The part of XML that image data need: elements, attributes and short texts.
//!
//! The scanner reads the file once and keeps only the current tag, so values between tags take no
//! memory. A file with another use of XML, such as entity declarations, is refused.

use std::io::BufRead;

use crate::error::Fault;
use crate::limits::format_bytes;
use crate::text::{MAX_QUOTED_CHARS, byte_count, shorten_for_message};

/// Largest tag, comment or text in bytes. A tag of VTK has fewer than 1000.
const MAX_TAG_BYTES: usize = 1 << 16;
/// Longest path of names in bytes. The paths of image data are shorter than 100.
const MAX_PATH_BYTES: usize = 1 << 10;

/// An opening tag.
pub struct Element {
    /// Names of the enclosing elements and of this one, such as `VTKFile/ImageData`.
    pub path: String,
    /// Offset in the file of the text that follows the tag.
    pub text_start: u64,
    attributes: Vec<(String, String)>,
}

impl Element {
    /// Returns the name of the element.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of an attribute that the format requires.
    pub fn required(&self, name: &str) -> Result<&str, Fault> {
        let missing = || Fault::malformed(self.name(), format!("no attribute {name}"), "image data of VTK");
        self.attribute(name).ok_or_else(missing)
    }

    /// Returns the error for an attribute that has another value than `expected`.
    pub fn attribute_fault(&self, name: &str, expected: &str) -> Fault {
        let value = self.attribute(name).unwrap_or_default();
        let got = format!("'{}'", shorten_for_message(value, MAX_QUOTED_CHARS));
        Fault::malformed(format!("{} {name}", self.name()), got, expected)
    }
}

/// Reads the tags of a file in their order.
pub struct Scanner<R> {
    source: R,
    /// Bytes read so far.
    position: u64,
    /// Bytes that may be read.
    max_bytes: u64,
    /// Names of the open elements, with `/` between them.
    path: String,
}

impl<R: BufRead> Scanner<R> {
    /// Creates a scanner that reads at most `max_bytes`.
    pub fn new(source: R, max_bytes: u64) -> Self {
        Self { source, position: 0, max_bytes, path: String::new() }
    }

    /// Returns the next opening tag, or `None` after the end of the outermost element.
    pub fn next_element(&mut self) -> Result<Option<Element>, Fault> {
        loop {
            self.skip_to_tag()?;
            let tag = self.read_tag()?;
            if tag.starts_with('?') || tag.starts_with("!--") {
                continue;
            }
            if tag.starts_with('!') {
                return Err(self.fault(format!("<{}", quote(&tag)), "an element"));
            }
            if let Some(name) = tag.strip_prefix('/') {
                self.close(name.trim_end())?;
                if self.path.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            let (content, is_closed) = match tag.strip_suffix('/') {
                Some(content) => (content, true),
                None => (tag.as_str(), false),
            };
            let (name, attributes) =
                parse_tag(content).ok_or_else(|| self.fault(format!("<{}", quote(&tag)), "an element"))?;
            let path = match self.path.as_str() {
                "" => name.to_owned(),
                outer => format!("{outer}/{name}"),
            };
            if path.len() > MAX_PATH_BYTES {
                return Err(self.fault("deeply nested elements", "image data of VTK"));
            }
            if !is_closed {
                self.path.clone_from(&path);
            } else if self.path.is_empty() {
                return Err(self.fault(format!("an empty {}", quote(name)), "image data of VTK"));
            }
            return Ok(Some(Element { path, text_start: self.position, attributes }));
        }
    }

    /// Returns the text between this position and the next tag, without white space at its ends.
    pub fn read_text(&mut self) -> Result<String, Fault> {
        let mut text = Vec::new();
        while self.peek()? != b'<' {
            self.push_byte(&mut text)?;
        }
        let text = self.decode(text)?;
        unescape(text.trim()).ok_or_else(|| self.fault(format!("'{}'", quote(&text)), "text"))
    }

    /// Skips white space and an underscore, which precedes appended data. Returns the offset of the
    /// data.
    pub fn find_appended_data(&mut self) -> Result<u64, Fault> {
        loop {
            let byte = self.peek()?;
            self.consume(1);
            match byte {
                b'_' => return Ok(self.position),
                byte if byte.is_ascii_whitespace() => {}
                _ => return Err(self.fault("another character", "an underscore before the appended data")),
            }
        }
    }

    fn close(&mut self, name: &str) -> Result<(), Fault> {
        let (outer, open) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        if open != name {
            return Err(self.fault(format!("</{}>", quote(name)), format!("</{open}>")));
        }
        self.path.truncate(outer.len());
        Ok(())
    }

    /// Skips text up to the next tag and its first character.
    fn skip_to_tag(&mut self) -> Result<(), Fault> {
        loop {
            self.peek()?;
            let buffer = self.source.fill_buf()?;
            let stop = buffer.iter().position(|&byte| byte == b'<' || byte == 0);
            match stop.map(|at| (at, buffer[at])) {
                Some((at, b'<')) => {
                    self.consume(at + 1);
                    return Ok(());
                }
                Some((at, _)) => {
                    self.consume(at);
                    return Err(self.fault("a NUL byte", "XML"));
                }
                None => {
                    let length = buffer.len();
                    self.consume(length);
                }
            }
        }
    }

    /// Reads a tag after its `<` up to its `>`, which the result does not contain. A `>` within
    /// quotes or a comment does not end it.
    fn read_tag(&mut self) -> Result<String, Fault> {
        let mut tag = Vec::new();
        let mut quote = None;
        loop {
            let is_comment = tag.starts_with(b"!--");
            match (self.peek()?, quote) {
                (b'>', None) if !is_comment || (tag.len() >= 5 && tag.ends_with(b"--")) => {
                    self.consume(1);
                    return self.decode(tag);
                }
                (byte, Some(open)) if byte == open => quote = None,
                (byte @ (b'"' | b'\''), None) if !is_comment => quote = Some(byte),
                _ => {}
            }
            self.push_byte(&mut tag)?;
        }
    }

    fn push_byte(&mut self, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        if bytes.len() == MAX_TAG_BYTES {
            let expected = format!("at most {}", byte_count(MAX_TAG_BYTES as u64));
            return Err(self.fault("a longer tag", expected));
        }
        bytes.push(self.peek()?);
        self.consume(1);
        Ok(())
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<String, Fault> {
        String::from_utf8(bytes).map_err(|_| self.fault("bytes that are not UTF-8", "XML"))
    }

    /// Returns the next byte without consuming it.
    fn peek(&mut self) -> Result<u8, Fault> {
        if self.position >= self.max_bytes {
            let got = format!("more than {} of XML", format_bytes(self.max_bytes));
            return Err(self.fault(got, "a file within the memory limit"));
        }
        let byte = self.source.fill_buf()?.first().copied();
        byte.ok_or_else(|| self.fault("the end of the file", "</VTKFile>"))
    }

    fn consume(&mut self, bytes: usize) {
        self.source.consume(bytes);
        self.position += bytes as u64;
    }

    fn fault(&self, got: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::malformed(format!("byte {}", self.position), got, expected)
    }
}

fn quote(text: &str) -> String {
    shorten_for_message(text, MAX_QUOTED_CHARS)
}

/// Parses the name and the attributes of a tag.
fn parse_tag(tag: &str) -> Option<(&str, Vec<(String, String)>)> {
    let (name, mut rest) = tag.split_at(tag.find(char::is_whitespace).unwrap_or(tag.len()));
    if name.is_empty() || name.contains(['/', '<', '=', '"', '\'']) {
        return None;
    }
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some((name, attributes));
        }
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| ['"', '\''].contains(c))?;
        let (value, after) = after[1..].split_once(quote)?;
        attributes.push((key.trim_end().to_owned(), unescape(value)?));
        rest = after;
    }
}

/// Replaces references such as `&amp;` and `&#176;` by their characters.
fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('&');
    let mut unescaped = parts.next()?.to_owned();
    for part in parts {
        let (reference, rest) = part.split_once(';')?;
        let numeric = || {
            let digits = reference.strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        };
        unescaped.push(match reference {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => numeric()?,
        });
        unescaped.push_str(rest);
    }
    Some(unescaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Result<Vec<String>, String> {
        let mut scanner = Scanner::new(std::io::BufReader::new(text.as_bytes()), 1 << 20);
        let mut paths = Vec::new();
        while let Some(element) = scanner.next_element().map_err(|fault| fault.to_string())? {
            paths.push(element.path);
        }
        Ok(paths)
    }

    #[test]
    fn elements_are_found_with_their_paths() {
        let text = "<?xml version='1.0'?><!-- <no> -- > --><a><b x=\"1 > 0\"/>text<b ></b></a>rest";
        assert_eq!(paths(text).unwrap(), ["a", "a/b", "a/b"]);
    }

    #[test]
    fn attributes_and_texts_are_unescaped() {
        let text = "<a x = '&lt;&amp;\"' y=\"&#176;C&#x3bc;\" >\n 1 &gt; 0 \n</a>";
        let mut scanner = Scanner::new(text.as_bytes(), 1 << 20);
        let element = scanner.next_element().unwrap().unwrap();
        assert_eq!((element.attribute("x"), element.attribute("y")), (Some("<&\""), Some("°Cμ")));
        assert_eq!(
            element.required("z").unwrap_err().to_string(),
            "a: got no attribute z, expected image data of VTK"
        );
        assert_eq!(scanner.read_text().unwrap(), "1 > 0");
        assert!(scanner.next_element().unwrap().is_none());
    }

    #[test]
    fn broken_xml_is_refused_with_its_position() {
        for (text, message) in [
            ("", "byte 0: got the end of the file, expected </VTKFile>"),
            ("<a><b></a>", "byte 10: got </a>, expected </b>"),
            ("<a><b x=1></b></a>", "byte 10: got <b x=1, expected an element"),
            ("<a><b x='&who;'/></a>", "byte 17: got <b x='&who;'/, expected an element"),
            ("<!DOCTYPE a []><a/>", "byte 15: got <!DOCTYPE a [], expected an element"),
            ("<a>", "byte 3: got the end of the file, expected </VTKFile>"),
            ("<a>1\u{0}</a>", "byte 4: got a NUL byte, expected XML"),
            ("<a/>", "byte 4: got an empty a, expected image data of VTK"),
        ] {
            assert_eq!(paths(text).unwrap_err(), message, "{text}");
        }
        let deep = "<abcdefghi>".repeat(200);
        assert_eq!(
            paths(&deep).unwrap_err(),
            "byte 1133: got deeply nested elements, expected image data of VTK"
        );
        let long = format!("<a b='{}'>", " ".repeat(70_000));
        assert_eq!(paths(&long).unwrap_err(), "byte 65537: got a longer tag, expected at most 65536 bytes");
        let long = format!("<a>{}</a>", " ".repeat(2 << 20));
        assert_eq!(
            paths(&long).unwrap_err(),
            "byte 1048576: got more than 1.0 MiB of XML, expected a file within the memory limit"
        );
    }
}
