//! Parser of `--window`.

use orrery_formats::Window;
use orrery_model::whole_number;

/// Range of nodes along an axis. An end that is not given is that of the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFlag {
    /// 0 for x, 1 for y, 2 for z.
    pub axis: usize,
    start: Option<usize>,
    end: Option<usize>,
}

impl WindowFlag {
    /// Returns the window of an axis with this number of nodes.
    pub fn within(&self, nodes: usize) -> Window {
        Window { start: self.start.unwrap_or(0), end: self.end.unwrap_or(nodes), stride: 1 }
    }
}

/// Parses a range such as `x=10..50`, `x=..50`, `x=10..` or `x=10`.
pub fn parse_window(text: &str) -> Result<WindowFlag, String> {
    parse(text).ok_or_else(|| "expected AXIS=RANGE such as x=10..50, y=..50, y=10.. or z=5".to_owned())
}

fn parse(text: &str) -> Option<WindowFlag> {
    let (axis, range) = text.split_once('=')?;
    let axis = ["x", "y", "z"].iter().position(|name| *name == axis.trim())?;
    let node = |text: &str| usize::try_from(whole_number(text.trim())?).ok();
    let Some((start, end)) = range.split_once("..") else {
        let start = node(range)?;
        return Some(WindowFlag { axis, start: Some(start), end: Some(start.checked_add(1)?) });
    };
    let bound = |text: &str| if text.trim().is_empty() { Some(None) } else { node(text).map(Some) };
    Some(WindowFlag { axis, start: bound(start)?, end: bound(end)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_accepted_with_one_and_two_ends() {
        for (text, axis, window) in [
            ("x=10..50", 0, 10..50),
            ("y=..50", 1, 0..50),
            ("y=10..", 1, 10..99),
            ("z=..", 2, 0..99),
            ("z=5", 2, 5..6),
            ("x = 1e1 .. 5_0", 0, 10..50),
        ] {
            let found = parse_window(text).unwrap();
            let Window { start, end, stride } = found.within(99);
            assert_eq!((found.axis, start..end, stride), (axis, window, 1), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_not_a_range_is_refused() {
        for text in
            ["", "x", "x=", "=1..2", "w=1..2", "X=1", "x=1..2..3", "x=-1..2", "x=1.5", "x=1:2", "1..2"]
        {
            let expected = "expected AXIS=RANGE such as x=10..50, y=..50, y=10.. or z=5".to_owned();
            assert_eq!(parse_window(text), Err(expected), "{text:?}");
        }
        assert!(parse_window("x=18446744073709551615").is_err());
    }
}
