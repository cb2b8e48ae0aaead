//! A ladder over a second choice: block sizes, or kinds of data. Bytes a second, since what it measures only moves them.

use serde::Serialize;
use serde_json::{Value, json};

use crate::show::{count, digits, rate_of, share, wrapped};

/// Widest name that the tables have room for.
const NAME: usize = 27;
/// Room for a rate.
const RATE: usize = 6;

/// A computation's rungs on one device, each over all columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// What is computed.
    pub title: String,
    /// Where: label and name.
    pub device: String,
    /// Size of the problem.
    pub n: usize,
    /// What `n` counts.
    pub counted: &'static str,
    /// What the columns are.
    pub over: &'static str,
    /// Each column's heading, at most six characters.
    pub columns: Vec<String>,
    /// Which column a rung is judged by.
    pub judged: Judged,
    /// Bytes a second that a copy moves, read and write both counted.
    pub copy: Option<f64>,
    /// On the processor: a name and bytes a second.
    pub on_cpu: Vec<(&'static str, f64)>,
    /// The rungs, from the first to the last.
    pub rungs: Vec<Row>,
}

/// Which column a rung is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The quickest, which is marked.
    ByBest,
    /// The first.
    ByFirst,
}

/// One rung.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Bytes a second in each column; none where the device cannot.
    pub rates: Vec<Option<f64>>,
    /// GB/s that the ladder's source reports for its own GPU, by column.
    pub course: Option<[f64; 6]>,
    /// What a reader should know of this rung.
    pub note: &'static str,
}

impl Grid {
    /// The column that a rung is judged by, and its rate.
    fn judge(&self, row: &Row) -> Option<(usize, f64)> {
        let known = row.rates.iter().enumerate().filter_map(|(k, rate)| Some((k, (*rate)?)));
        match self.judged {
            Judged::ByBest => known.max_by(|a, b| a.1.total_cmp(&b.1)),
            Judged::ByFirst => known.into_iter().find(|(k, _)| *k == 0),
        }
    }

    fn share_of_copy(&self, row: &Row) -> Option<f64> {
        Some(self.judge(row)?.1 / self.copy?)
    }

    /// As tables of at most 80 columns.
    pub fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("{}, {} {}", self.title, count(self.n), self.counted), self.device.clone()];
        if let Some(copy) = self.copy {
            let judged = match self.judged {
                Judged::ByBest => "the best, marked *".to_owned(),
                Judged::ByFirst => format!("the column {}", self.columns.first().map_or("-", |name| name)),
            };
            lines.push(format!("GB/s by {}; of copy: {judged}, of {}", self.over, rate_of(copy, "B/s")));
        }
        lines.push(String::new());
        for (name, rate) in &self.on_cpu {
            lines.push(format!("  {name:<NAME$} {:>RATE$} GB/s", digits(rate / 1e9)));
        }
        if self.rungs.is_empty() {
            return lines;
        }
        let headings: String = self.columns.iter().map(|name| format!(" {name:>RATE$}")).collect();
        lines.push(format!("  {:<NAME$}{headings} {:>7}", "rung", "of copy"));
        lines.extend(self.rungs.iter().map(|row| self.line(row)));
        let notes = self.rungs.iter().filter(|row| !row.note.is_empty());
        let notes = notes.flat_map(|row| wrapped(&format!("{}: {}", row.name, row.note), 78));
        lines.push(String::new());
        lines.extend(notes.map(|line| format!("  {line}")));
        lines.extend(self.course());
        lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
    }

    fn line(&self, row: &Row) -> String {
        let best = self.judge(row).filter(|_| self.judged == Judged::ByBest).map(|(k, _)| k);
        let mut line = format!("  {:<NAME$}", cut(row.name));
        for (k, rate) in row.rates.iter().enumerate() {
            let shown = rate.map_or_else(|| "-".to_owned(), |rate| digits(rate / 1e9));
            // The mark takes the place of the space before.
            let shown = if best == Some(k) { format!("*{shown}") } else { shown };
            line.push_str(&format!("{shown:>width$}", width = RATE + 1));
        }
        format!("{line} {:>7}", share(self.share_of_copy(row)))
    }

    /// What the ladder's source measured.
    fn course(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for row in &self.rungs {
            let Some(course) = row.course else { continue };
            let rates: String = course.iter().map(|rate| format!(" {:>RATE$}", digits(*rate))).collect();
            lines.push(format!("  {:<NAME$}{rates}", cut(row.name)));
        }
        if !lines.is_empty() {
            lines.insert(0, format!("GB/s in the course, on its GPU, by {}", self.over));
            lines.insert(0, String::new());
        }
        lines
    }

    /// The same for files.
    pub fn json(&self) -> Value {
        let rung = |row: &Row| {
            let mut value = serde_json::to_value(row).expect("plain data always serialises");
            let judged = self.judge(row);
            value["column"] = json!(judged.map(|(k, _)| self.columns[k].clone()));
            value["rate"] = json!(judged.map(|(_, rate)| rate));
            value["share_of_copy"] = json!(self.share_of_copy(row));
            value["unit"] = json!("bytes/s");
            value
        };
        let on_cpu = |(name, rate): &(&str, f64)| json!({ "name": name, "rate": rate, "unit": "bytes/s" });
        json!({
            "title": self.title, "device": self.device, "n": self.n, "counted": self.counted,
            "over": self.over, "columns": self.columns, "copy_bytes_per_s": self.copy,
            "cpu": self.on_cpu.iter().map(on_cpu).collect::<Vec<_>>(),
            "rungs": self.rungs.iter().map(rung).collect::<Vec<_>>(),
        })
    }
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |name, rates: [f64; 6], course| Row {
            name,
            rates: rates.map(|rate| (rate > 0.0).then_some(rate * 1e9)).to_vec(),
            course,
            note: "one launch a layer",
        };
        Grid {
            title: "sum of f32".into(),
            device: "cuda:0, NVIDIA H200".into(),
            n: 1 << 28,
            counted: "numbers",
            over: "threads a group",
            columns: [32, 64, 128, 256, 512, 1024].map(|block| block.to_string()).to_vec(),
            judged: Judged::ByBest,
            copy: Some(4.2e12),
            on_cpu: vec![("CPU, one thread", 3.1e9), ("CPU, all cores", 12.6e9)],
            rungs: vec![
                row(
                    "interleaved, divergent",
                    [400.0, 512.5, 800.0, 1210.0, 1100.0, 0.0],
                    Some([7.39, 12.57, 16.77, 14.67, 12.33, 9.05]),
                ),
                row(
                    "vector loads, many items a thread",
                    [2000.0, 3000.0, 3900.0, 4010.0, 4030.0, 4020.0],
                    None,
                ),
            ],
        }
    }

    #[test]
    fn the_table_fits_80_columns_and_marks_the_best() {
        let lines = grid().lines();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(
            lines.contains(
                &"  interleaved, divergent         400    512    800  *1210   1100      -     29%".to_owned()
            ),
            "{lines:#?}"
        );
        assert!(
            lines.contains(
                &"  interleaved, divergent        7.39   12.6   16.8   14.7   12.3   9.05".to_owned()
            ),
            "{lines:#?}"
        );
        assert!(lines.contains(&"  CPU, all cores                12.6 GB/s".to_owned()), "{lines:#?}");
    }

    #[test]
    fn json_has_what_readers_rely_on() {
        let json = grid().json();
        assert_eq!(json["rungs"][1]["column"], "512");
        assert_eq!(json["rungs"][0]["rates"][5], Value::Null);
        assert!((json["rungs"][1]["share_of_copy"].as_f64().unwrap() - 4030.0 / 4200.0).abs() < 1e-12);
        assert_eq!(json["cpu"][0]["name"], "CPU, one thread");
    }

    #[test]
    fn without_a_device_only_the_processor_is_shown() {
        let bare = Grid { rungs: Vec::new(), copy: None, ..grid() };
        let lines = bare.lines();
        assert_eq!(lines.len(), 5, "{lines:#?}");
        // The first column, where the columns are not to be chosen from.
        let first = Grid { judged: Judged::ByFirst, ..grid() };
        assert_eq!(first.json()["rungs"][1]["column"], "32");
        assert!(!first.lines().iter().any(|line| line.contains('*')));
    }
}
