//! Ladder whose rungs are measured for several values of a parameter, such as the block size or the
//! kind of input. Rates are in bytes per second, because these computations only move data.

use serde::Serialize;
use serde_json::{Value, json};

use crate::format::{format_count, format_number, format_percent, format_rate, truncate_text, wrap_text};

/// Width of the name column.
const NAME_WIDTH: usize = 27;
/// Width of a rate column.
const RATE_WIDTH: usize = 6;

/// Results of all rungs on one device, with one column per value of the swept parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Name of the computation.
    pub title: String,
    /// Label and name of the device.
    pub device: String,
    /// Problem size.
    pub n: usize,
    /// Plural noun for the items that `n` counts, for example `bytes`.
    pub size_unit: &'static str,
    /// Name of the swept parameter, for example `threads per block`.
    pub parameter: &'static str,
    /// Values of the parameter as column headings of at most six characters.
    pub columns: Vec<String>,
    /// Column whose rate is compared with the copy.
    pub compared: ComparedColumn,
    /// Bytes per second of a copy, reads and writes both counted.
    pub copy: Option<f64>,
    /// Name and bytes per second of each CPU version.
    pub on_cpu: Vec<(&'static str, f64)>,
    /// Results of the rungs, in order.
    pub rungs: Vec<SweepRung>,
}

/// Column of a rung whose rate is compared with the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedColumn {
    /// The fastest column, which the table marks with `*`.
    Fastest,
    /// The first column.
    First,
}

/// Measured rates of one rung.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepRung {
    /// Name of the rung.
    pub name: &'static str,
    /// Bytes per second, one per column. `None` if the device does not support the parameter value.
    pub rates: Vec<Option<f64>>,
    /// GB/s that the course reports for its GPU, one per column.
    pub course: Option<[f64; 6]>,
    /// Remark for readers of the table.
    pub note: &'static str,
}

impl Sweep {
    /// Returns the index and rate of the column that is compared with the copy.
    fn compared_rate(&self, rung: &SweepRung) -> Option<(usize, f64)> {
        let mut known = rung.rates.iter().enumerate().filter_map(|(column, rate)| Some((column, (*rate)?)));
        match self.compared {
            ComparedColumn::Fastest => known.max_by(|a, b| a.1.total_cmp(&b.1)),
            ComparedColumn::First => known.find(|(column, _)| *column == 0),
        }
    }

    fn share_of_copy(&self, rung: &SweepRung) -> Option<f64> {
        Some(self.compared_rate(rung)?.1 / self.copy?)
    }

    /// Formats the results as tables of at most 80 columns.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.heading_lines();
        lines.push(String::new());
        for (name, rate) in &self.on_cpu {
            lines.push(format!("  {name:<NAME_WIDTH$} {:>RATE_WIDTH$} GB/s", format_number(rate / 1e9)));
        }
        if self.rungs.is_empty() {
            return lines;
        }
        let headings: String = self.columns.iter().map(|name| format!(" {name:>RATE_WIDTH$}")).collect();
        lines.push(format!("  {:<NAME_WIDTH$}{headings} {:>7}", "rung", "of copy"));
        lines.extend(self.rungs.iter().map(|rung| self.rung_line(rung)));
        let noted = self.rungs.iter().filter(|rung| !rung.note.is_empty());
        let notes = noted.flat_map(|rung| wrap_text(&format!("{}: {}", rung.name, rung.note), 78));
        lines.push(String::new());
        lines.extend(notes.map(|line| format!("  {line}")));
        lines.extend(self.course_lines());
        lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
    }

    fn heading_lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("{}, {} {}", self.title, format_count(self.n), self.size_unit), self.device.clone()];
        if let Some(copy) = self.copy {
            let compared = match self.compared {
                ComparedColumn::Fastest => "fastest column (*)".to_owned(),
                ComparedColumn::First => {
                    format!("column '{}'", self.columns.first().map_or("-", |name| name))
                }
            };
            let copy = format_rate(copy, "B/s");
            lines.push(format!("GB/s by {}; of copy: {compared} relative to {copy}", self.parameter));
        }
        lines
    }

    fn rung_line(&self, rung: &SweepRung) -> String {
        let is_marked = self.compared == ComparedColumn::Fastest;
        let marked = self.compared_rate(rung).filter(|_| is_marked).map(|(column, _)| column);
        let mut line = format!("  {:<NAME_WIDTH$}", truncate_text(rung.name, NAME_WIDTH));
        for (column, rate) in rung.rates.iter().enumerate() {
            let number = rate.map_or_else(|| "-".to_owned(), |rate| format_number(rate / 1e9));
            // The mark replaces the space before the number.
            let number = if marked == Some(column) { format!("*{number}") } else { number };
            line.push_str(&format!("{number:>width$}", width = RATE_WIDTH + 1));
        }
        format!("{line} {:>7}", format_percent(self.share_of_copy(rung)))
    }

    /// Formats the rates that the course reports. Empty if it reports none.
    fn course_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for rung in &self.rungs {
            let Some(course) = rung.course else { continue };
            let rates: String =
                course.iter().map(|rate| format!(" {:>RATE_WIDTH$}", format_number(*rate))).collect();
            lines.push(format!("  {:<NAME_WIDTH$}{rates}", truncate_text(rung.name, NAME_WIDTH)));
        }
        if !lines.is_empty() {
            lines.insert(0, format!("GB/s reported in the course, for its GPU, by {}", self.parameter));
            lines.insert(0, String::new());
        }
        lines
    }

    /// Returns the results as a JSON object.
    pub fn to_json(&self) -> Value {
        let rung_json = |rung: &SweepRung| {
            let mut value = serde_json::to_value(rung).expect("plain data always serialises");
            let compared = self.compared_rate(rung);
            value["compared_column"] = json!(compared.map(|(column, _)| self.columns[column].clone()));
            value["rate"] = json!(compared.map(|(_, rate)| rate));
            value["share_of_copy"] = json!(self.share_of_copy(rung));
            value["unit"] = json!("bytes/s");
            value
        };
        let cpu_json = |(name, rate): &(&str, f64)| json!({ "name": name, "rate": rate, "unit": "bytes/s" });
        json!({
            "title": self.title, "device": self.device, "n": self.n, "size_unit": self.size_unit,
            "parameter": self.parameter, "columns": self.columns, "copy_bytes_per_s": self.copy,
            "cpu": self.on_cpu.iter().map(cpu_json).collect::<Vec<_>>(),
            "rungs": self.rungs.iter().map(rung_json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example_sweep() -> Sweep {
        let rung = |name, gigabytes_per_s: [f64; 6], course| SweepRung {
            name,
            rates: gigabytes_per_s.map(|rate| (rate > 0.0).then_some(rate * 1e9)).to_vec(),
            course,
            note: "one launch per layer",
        };
        Sweep {
            title: "sum of f32".into(),
            device: "cuda:0, NVIDIA H200".into(),
            n: 1 << 28,
            size_unit: "numbers",
            parameter: "threads per block",
            columns: [32, 64, 128, 256, 512, 1024].map(|block| block.to_string()).to_vec(),
            compared: ComparedColumn::Fastest,
            copy: Some(4.2e12),
            on_cpu: vec![("CPU, one thread", 3.1e9), ("CPU, all cores", 12.6e9)],
            rungs: vec![
                rung(
                    "interleaved, divergent",
                    [400.0, 512.5, 800.0, 1210.0, 1100.0, 0.0],
                    Some([7.39, 12.57, 16.77, 14.67, 12.33, 9.05]),
                ),
                rung(
                    "vector loads, many items per thread",
                    [2000.0, 3000.0, 3900.0, 4010.0, 4030.0, 4020.0],
                    None,
                ),
            ],
        }
    }

    #[test]
    fn table_fits_80_columns_and_marks_the_fastest_column() {
        let lines = example_sweep().lines();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        let expected = [
            "GB/s by threads per block; of copy: fastest column (*) relative to 4.20 TB/s",
            "  interleaved, divergent         400    512    800  *1210   1100      -     29%",
            "  interleaved, divergent        7.39   12.6   16.8   14.7   12.3   9.05",
            "  CPU, all cores                12.6 GB/s",
        ];
        for line in expected {
            assert!(lines.iter().any(|found| found == line), "expected {line}\n{lines:#?}");
        }
    }

    #[test]
    fn json_names_the_compared_column() {
        let json = example_sweep().to_json();
        assert_eq!(json["rungs"][1]["compared_column"], "512");
        assert_eq!(json["rungs"][0]["rates"][5], Value::Null);
        assert!((json["rungs"][1]["share_of_copy"].as_f64().unwrap() - 4030.0 / 4200.0).abs() < 1e-12);
        assert_eq!(json["cpu"][0]["name"], "CPU, one thread");
        assert_eq!(json["parameter"], "threads per block");
    }

    #[test]
    fn without_a_device_only_the_cpu_rates_are_listed() {
        let cpu_only = Sweep { rungs: Vec::new(), copy: None, ..example_sweep() };
        let lines = cpu_only.lines();
        assert_eq!(lines.len(), 5, "{lines:#?}");
    }

    #[test]
    fn first_column_can_be_compared_instead_of_the_fastest() {
        let first = Sweep { compared: ComparedColumn::First, ..example_sweep() };
        assert_eq!(first.to_json()["rungs"][1]["compared_column"], "32");
        assert!(!first.lines().iter().any(|line| line.contains('*')));
    }
}
