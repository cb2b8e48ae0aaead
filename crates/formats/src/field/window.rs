//! Parts of volumes: every stride-th node of a range along each axis.

use crate::error::Fault;

/// Nodes `start`, `start + stride`, ... below `end` of an axis.
///
/// ```
/// use orrery_formats::{Window, copy_window};
///
/// // Every second node along x, all along y, one plane along z.
/// let windows = [Window { start: 0, end: 4, stride: 2 }, Window::whole(2), Window::plane(1)];
/// let values: Vec<f32> = (0..16).map(|k| k as f32).collect();
/// let part = copy_window(&values, [4, 2, 2], &windows).unwrap();
/// assert_eq!(windows.map(|window| window.len()), [2, 2, 1]);
/// assert_eq!(part, [8.0, 10.0, 12.0, 14.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First node.
    pub start: usize,
    /// Node after the last one that may be part of the window.
    pub end: usize,
    /// Distance of neighbours in nodes of the axis.
    pub stride: usize,
}

impl Window {
    /// Returns the window of all nodes of an axis.
    pub const fn whole(nodes: usize) -> Self {
        Self { start: 0, end: nodes, stride: 1 }
    }

    /// Returns the window of one node.
    pub const fn plane(node: usize) -> Self {
        Self { start: node, end: node + 1, stride: 1 }
    }

    /// Checks that the window has a node and lies within an axis of `nodes`. `axis` is its name in
    /// the message, for example `x`.
    pub fn check(&self, axis: &str, nodes: usize) -> Result<(), Fault> {
        let location = || format!("window along {axis}");
        if self.start >= self.end || self.end > nodes {
            let got = format!("nodes {}..{}", self.start, self.end);
            return Err(Fault::malformed(location(), got, format!("a range within 0..{nodes}")));
        }
        if self.stride == 0 {
            return Err(Fault::malformed(location(), "stride 0", "at least 1"));
        }
        Ok(())
    }

    /// Returns the number of nodes of a checked window.
    #[expect(clippy::len_without_is_empty, reason = "a checked window has at least one node")]
    pub fn len(&self) -> usize {
        (self.end - self.start).div_ceil(self.stride)
    }

    /// Returns the nodes of a checked window in ascending order.
    pub fn nodes(&self) -> impl Iterator<Item = usize> + use<> {
        (self.start..self.end).step_by(self.stride)
    }
}

/// Returns the values at the nodes of `windows` along x, y and z, with x varying fastest.
///
/// `values` has one value per node of `nodes` along x, y and z, in the same order.
pub fn copy_window<T: Copy>(values: &[T], nodes: [usize; 3], windows: &[Window; 3]) -> Result<Vec<T>, Fault> {
    let [nx, ny, nz] = nodes;
    Fault::check_length("field", values.len() as u64, (nx * ny * nz) as u64)?;
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        windows[axis].check(name, nodes[axis])?;
    }
    let mut part = Vec::with_capacity(windows.iter().map(Window::len).product());
    for k in windows[2].nodes() {
        for j in windows[1].nodes() {
            let row = &values[(k * ny + j) * nx..][..nx];
            match windows[0] {
                Window { start, end, stride: 1 } => part.extend_from_slice(&row[start..end]),
                strided => part.extend(strided.nodes().map(|i| row[i])),
            }
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_select_the_same_nodes_as_loops() {
        let nodes = [5, 4, 3];
        let values: Vec<usize> = (0..60).collect();
        let windows = [
            Window { start: 1, end: 5, stride: 2 },
            Window { start: 0, end: 4, stride: 3 },
            Window { start: 1, end: 3, stride: 1 },
        ];
        let part = copy_window(&values, nodes, &windows).unwrap();
        let index = |i: usize, j: usize, k: usize| (k * 4 + j) * 5 + i;
        let expected: Vec<usize> =
            [1, 2].iter().flat_map(|&k| [0, 3].map(|j| [1, 3].map(|i| index(i, j, k)))).flatten().collect();
        assert_eq!(part, expected);
        assert_eq!(copy_window(&values, nodes, &nodes.map(Window::whole)).unwrap(), values);
    }

    #[test]
    fn windows_outside_the_axis_are_refused() {
        let whole = [5, 4, 3].map(Window::whole);
        let message = |axis: usize, window| {
            let mut windows = whole;
            windows[axis] = window;
            copy_window(&[0u8; 60], [5, 4, 3], &windows).unwrap_err().to_string()
        };
        assert_eq!(
            message(1, Window::plane(4)),
            "window along y: got nodes 4..5, expected a range within 0..4"
        );
        assert_eq!(
            message(0, Window { start: 2, end: 2, stride: 1 }),
            "window along x: got nodes 2..2, expected a range within 0..5"
        );
        assert_eq!(
            message(2, Window { start: 0, end: 3, stride: 0 }),
            "window along z: got stride 0, expected at least 1"
        );
        let error = copy_window(&[0u8; 59], [5, 4, 3], &whole).unwrap_err().to_string();
        assert_eq!(error, "field has 59 entries, expected 60");
    }
}
