//! The textual header: 40 lines of 80 characters in EBCDIC (code page 37).

const LINES: usize = 40;
const LINE_CHARS: usize = 80;
/// Bytes of the header.
pub const TEXT_BYTES: usize = LINES * LINE_CHARS;

/// EBCDIC codes of the ASCII characters from the space to `~`.
const EBCDIC: [u8; 95] = [
    0x40, 0x5a, 0x7f, 0x7b, 0x5b, 0x6c, 0x50, 0x7d, 0x4d, 0x5d, 0x5c, 0x4e, 0x6b, 0x60, 0x4b, 0x61, 0xf0,
    0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0x7a, 0x5e, 0x4c, 0x7e, 0x6e, 0x6f, 0x7c, 0xc1,
    0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9,
    0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xba, 0xe0, 0xbb, 0xb0, 0x6d, 0x79, 0x81, 0x82, 0x83,
    0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0xa2, 0xa3,
    0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xc0, 0x4f, 0xd0, 0xa1,
];

/// Returns the header with `lines`, each after its number as `C 1`, `C 2` and so on.
///
/// The last two lines are those that the standard requires. Lines that do not fit are left out,
/// long lines are cut, and characters outside ASCII become `?`.
pub fn textual_header(lines: &[String], is_rev2: bool) -> [u8; TEXT_BYTES] {
    let revision = if is_rev2 { "SEG-Y REV2.0" } else { "SEG Y REV1" };
    let mut header = [EBCDIC[0]; TEXT_BYTES];
    for (k, row) in header.chunks_exact_mut(LINE_CHARS).enumerate() {
        let text = match LINES - k {
            1 => "END TEXTUAL HEADER",
            2 => revision,
            _ => lines.get(k).map_or("", String::as_str),
        };
        let line = format!("C{:>2} {text}", k + 1);
        for (byte, character) in row.iter_mut().zip(line.chars()) {
            let index = (character as usize).checked_sub(0x20).filter(|&index| index < EBCDIC.len());
            *byte = EBCDIC[index.unwrap_or('?' as usize - 0x20)];
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the header with the inverse of the table.
    fn decoded(header: &[u8]) -> String {
        header.iter().map(|b| (0x20 + EBCDIC.iter().position(|e| e == b).unwrap() as u8) as char).collect()
    }

    #[test]
    fn header_has_40_numbered_lines() {
        let lines: Vec<String> = (0..50).map(|k| format!("line {k} \u{b5}s {}", "x".repeat(90))).collect();
        let text = decoded(&textual_header(&lines, false));
        assert!(text.starts_with("C 1 line 0 ?s xxx"), "{text}");
        assert_eq!(&text[80..88], "C 2 line");
        assert_eq!(text[38 * 80..].split_whitespace().collect::<Vec<_>>().join(" "), {
            "C39 SEG Y REV1 C40 END TEXTUAL HEADER"
        });
        // Known codes: C, 1, space.
        assert_eq!(textual_header(&[], true)[..4], [0xc3, 0x40, 0xf1, 0x40]);
        assert!(decoded(&textual_header(&[], true)).contains("C39 SEG-Y REV2.0 "));
    }
}
