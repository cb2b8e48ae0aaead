//! Text of kernel files at compile time: files are joined, and numbers that they define are read.

/// Concatenates kernel files, for [`KernelFile::new`](crate::KernelFile::new). Paths are relative
/// to the calling file. The messages of compilers name the file and line of an error.
///
/// `kernel_source!("nodes.cu", "walk.cu")`
#[macro_export]
macro_rules! kernel_source {
    ($($file:literal),+) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!($file), "\n"),+)
    };
}

/// Joins constant texts of kernel files, for [`KernelFile::new`](crate::KernelFile::new). Unlike
/// those of [`kernel_source!`], the texts may be constants of other crates.
///
/// `join_sources!(other_crate::FRAME_SOURCE, kernel_source!("walk.cu"))`
#[macro_export]
macro_rules! join_sources {
    ($($text:expr),+ $(,)?) => {{
        const TEXTS: &[&str] = &[$($text),+];
        const BYTES: [u8; $crate::joined_length(TEXTS)] = $crate::joined_bytes(TEXTS);
        match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("texts that are joined stay UTF-8"),
        }
    }};
}

/// Returns the number of bytes of all texts, for [`join_sources!`](crate::join_sources).
#[doc(hidden)]
pub const fn joined_length(texts: &[&str]) -> usize {
    let (mut length, mut text) = (0, 0);
    while text < texts.len() {
        length += texts[text].len();
        text += 1;
    }
    length
}

/// Returns the bytes of all texts, for [`join_sources!`](crate::join_sources). `N` is their
/// [`joined_length`].
#[doc(hidden)]
pub const fn joined_bytes<const N: usize>(texts: &[&str]) -> [u8; N] {
    let (mut bytes, mut length, mut text) = ([0; N], 0, 0);
    while text < texts.len() {
        let (_, rest) = bytes.split_at_mut(length);
        let (part, _) = rest.split_at_mut(texts[text].len());
        part.copy_from_slice(texts[text].as_bytes());
        length += texts[text].len();
        text += 1;
    }
    bytes
}

/// Returns the number that a kernel file defines, so that launchers use the value of the file.
///
/// ```
/// use orrery_device::defined_number;
///
/// const NODES: &str = "#define LEVELS 42 // with those of indices\n";
/// const LEVELS: usize = defined_number(NODES, "LEVELS");
/// assert_eq!(LEVELS, 42);
/// ```
///
/// # Panics
/// Without a line `#define NAME NUMBER`, where NUMBER has decimal digits, and `u` if it is
/// unsigned. For a constant this is an error of the build.
pub const fn defined_number(text: &str, name: &str) -> usize {
    const DEFINE: &[u8] = b"#define ";
    let (text, name) = (text.as_bytes(), name.as_bytes());
    let mut line = 0;
    while line < text.len() {
        let (start, end) = (line + DEFINE.len(), line + DEFINE.len() + name.len());
        if contains_at(text, line, DEFINE) && contains_at(text, start, name) && contains_at(text, end, b" ") {
            return parse_number(text, end + 1);
        }
        while line < text.len() && text[line] != b'\n' {
            line += 1;
        }
        line += 1;
    }
    panic!("the kernel file does not define the number")
}

/// True if `part` begins at index `start` of the text.
const fn contains_at(text: &[u8], start: usize, part: &[u8]) -> bool {
    let mut byte = 0;
    while byte < part.len() {
        if start + byte >= text.len() || text[start + byte] != part[byte] {
            return false;
        }
        byte += 1;
    }
    true
}

/// Returns the decimal number at index `start`, which `u`, a space or the end of the line follows.
const fn parse_number(text: &[u8], start: usize) -> usize {
    let (mut number, mut byte) = (0, start);
    while byte < text.len() && text[byte].is_ascii_digit() {
        number = 10 * number + (text[byte] - b'0') as usize;
        byte += 1;
    }
    let is_end = byte == text.len() || matches!(text[byte], b'u' | b' ' | b'\n');
    assert!(byte > start && is_end, "the value of the definition is not a decimal number");
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_joined_in_order() {
        const FIRST: &str = "#define METRE 1.0\n";
        const JOINED: &str = join_sources!(FIRST, "// 1 Å\n", "");
        assert_eq!(JOINED, "#define METRE 1.0\n// 1 Å\n");
    }

    #[test]
    fn numbers_are_read_from_their_definition() {
        const TEXT: &str =
            "// #define SIDE 1\n#define SIDES 2u\n#define SIDE 31 // of the cube\n#define LAST 0";
        const SIDE: usize = defined_number(TEXT, "SIDE");
        assert_eq!([SIDE, defined_number(TEXT, "SIDES"), defined_number(TEXT, "LAST")], [31, 2, 0]);
    }

    #[test]
    #[should_panic(expected = "does not define the number")]
    fn a_number_that_is_not_defined_is_an_error() {
        defined_number("#define SIDES 2\n", "SIDE");
    }

    #[test]
    #[should_panic(expected = "not a decimal number")]
    fn a_number_that_is_not_decimal_is_an_error() {
        defined_number("#define LEAF 0xffu\n", "LEAF");
    }
}
