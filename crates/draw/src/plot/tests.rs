//! Well-formed SVG, degenerate input, and agreement of SVG and image.

use orrery_formats::Seismogram;
use orrery_model::analysis::max_or_nan;

use super::*;

fn plot(log: bool, series: Vec<Series>) -> Plot {
    let axis = |label: &str| Axis { label: label.to_owned(), log };
    Plot {
        title: "Energy <&> \"error\"".into(),
        subtitle: "leapfrog\u{0}".into(),
        x: axis("t / Gyr"),
        y: axis("|\u{394}E/E_{0}|"),
        series,
    }
}

/// Asserts that tags are closed in order and that no attribute contains NaN or infinity.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "stray > before {}", &rest[start..start + 20]);
        let end = start + rest[start..].find('>').expect("the tag is closed");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
        assert!(!tag.contains("NaN") && !tag.contains("inf"), "{tag}");
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    assert!(!svg.contains('\u{0}'));
}

fn point_count(svg: &str) -> usize {
    let (_, curves) = svg.split_once("<g clip-path").unwrap();
    let lines = curves.split("points=\"").skip(1).map(|p| p.split('"').next().unwrap());
    lines.map(|p| p.split(' ').count()).sum::<usize>() + curves.matches("<circle").count()
}

#[test]
fn svg_is_well_formed_and_has_all_points() {
    let wave: Vec<(f64, f64)> = (1..=500).map(|i| (f64::from(i), 2.0 + f64::from(i).sin())).collect();
    for log in [false, true] {
        for style in [Style::Line, Style::Dashed, Style::Points] {
            let series = Series { name: "a & b".into(), points: wave.clone(), style };
            let svg = plot(log, vec![series.clone(), series]).to_svg();
            assert_well_formed(&svg);
            assert_eq!(point_count(&svg), 1000);
            assert!(svg.contains("a &amp; b"));
        }
    }
}

#[test]
fn degenerate_series_give_valid_plots() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let cases: Vec<Vec<(f64, f64)>> = vec![
        vec![],
        vec![(1.0, 1.0)],
        vec![(0.0, 0.0)],
        vec![(0.0, 3.0), (1.0, 3.0)],
        vec![(0.0, -3.0), (1.0, 0.0), (2.0, -1e-300)],
        vec![(nan, 1.0), (1.0, nan), (inf, 2.0), (2.0, -inf)],
        vec![(1.0, 1.0), (2.0, nan), (3.0, 1e-5), (4.0, 2.0)],
        vec![(-1e308, 1e308), (1e308, -1e308)],
        vec![(1e-320, 1e-320), (1e308, 1e308)],
        vec![(1e15, 1.0), (1e15 + 1.0, 1.0 + 1e-15)],
    ];
    for points in cases {
        for log in [false, true] {
            for style in [Style::Line, Style::Dashed, Style::Points] {
                let series = Series { name: String::new(), points: points.clone(), style };
                let plot = plot(log, vec![series, Series::default()]);
                assert_well_formed(&plot.to_svg());
                for (width, height) in [(300, 200), (1, 1), (40, 700)] {
                    let image = plot.to_image(width, height);
                    assert_eq!((image.width, image.height), (width, height), "{points:?}");
                }
            }
        }
    }
    assert_well_formed(&Plot::default().to_svg());
}

/// A point that cannot be shown divides the line into two pieces.
#[test]
fn points_that_cannot_be_shown_leave_a_gap() {
    let points = vec![(1.0, 1.0), (2.0, 2.0), (3.0, -1.0), (4.0, 3.0), (5.0, 4.0)];
    let svg = plot(true, vec![Series::line("", points)]).to_svg();
    let (_, curves) = svg.split_once("<g clip-path").unwrap();
    assert_eq!(curves.matches("<polyline").count(), 2);
    assert_eq!(point_count(&svg), 4);
}

#[test]
fn line_rises_to_the_right_in_the_image() {
    let image = plot(false, vec![Series::line("", vec![(0.0, 0.0), (1.0, 1.0)])]).to_image(720, 480);
    let blue = |x: u32, y: u32| image.pixel(x, y)[2] > 120 && image.pixel(x, y)[0] < 90;
    let column = |x: u32| (0..480).find(|&y| blue(x, y));
    let (near, far) = (column(200).expect("left part"), column(600).expect("right part"));
    assert!(far + 100 < near, "rises to the right: {near} {far}");
}

#[test]
fn svg_and_png_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let plot = plot(true, vec![Series::line("error", vec![(1.0, 1e-6), (2.0, 1e-5)])]);
    plot.write_svg(&folder.path().join("energy.svg")).unwrap();
    plot.write_png(&folder.path().join("energy.png"), 300, 200).unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("energy.svg")).unwrap(), plot.to_svg());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    assert!(plot.write_svg(&folder.path().join("no/such.svg")).unwrap_err().to_string().contains("such.svg"));
}

/// Returns a shot with a spike of this size at the last receiver and the last but second sample.
fn spike(receivers: usize, samples: usize, size: f64) -> Seismogram {
    let mut values = vec![0.0; receivers * samples];
    let at = values.len() - values.len().min(3);
    values[at] = size;
    Seismogram {
        shot: 1,
        dt: 0.01,
        start: -0.1,
        source: [0.0; 3],
        receivers: (0..receivers).map(|k| [100.0 * k as f64, 0.0, 0.0]).collect(),
        precision: orrery_model::Precision::Double,
        samples: values,
    }
}

#[test]
fn any_seismogram_can_be_drawn() {
    for (receivers, samples) in [(1, 1), (1, 50), (2, 1), (700, 3), (3, 5000)] {
        for size in [0.0, -1.0, 1e300, f64::NAN, f64::INFINITY] {
            let shot = spike(receivers, samples, size);
            let plot = SeismogramPlot::new(&shot);
            assert_well_formed(&plot.to_svg());
            for (width, height) in [(300, 200), (1, 1), (40, 700)] {
                for image in [plot.to_image(width, height), plot.to_grey_image(width, height)] {
                    assert_eq!((image.width, image.height), (width, height));
                }
            }
        }
    }
}

/// Time increases downwards, offsets to the right. Positive values are dark, negative ones bright.
#[test]
fn traces_are_at_their_offset_and_time() {
    let (shot, negative) = (spike(5, 50, 1.0), spike(5, 50, -1.0));
    let darkest = |image: &Image, from: [u32; 2], to: [u32; 2]| {
        let pixels = (from[1]..to[1]).flat_map(|y| (from[0]..to[0]).map(move |x| (x, y)));
        pixels.min_by_key(|&(x, y)| image.pixel(x, y)[0]).unwrap()
    };
    let image = SeismogramPlot::new(&shot).to_grey_image(720, 480);
    let (x, y) = darkest(&image, [110, 70], [695, 420]);
    assert!(x > 550 && y > 370, "{x} {y}");
    assert_eq!(image.pixel(300, 200), [128; 3]);
    assert!(image.pixel(x, y)[0] < 10);
    assert_eq!(
        SeismogramPlot::new(&negative).to_grey_image(720, 480).pixel(x, y)[0],
        255 - image.pixel(x, y)[0]
    );
    // The filled lobe of a positive value is at the right of its trace.
    let lobes = |shot: &Seismogram| {
        let svg = SeismogramPlot::new(shot).to_svg();
        let last = svg.rsplit("<polygon points=\"").next().unwrap().split('"').next().unwrap().to_owned();
        let x = |point: &str| point.split(',').next().unwrap().parse::<f64>().unwrap();
        let base = x(last.split(' ').next().unwrap());
        last.split(' ').map(|point| x(point) - base).fold(0.0, max_or_nan)
    };
    assert!(lobes(&shot) > 50.0 && lobes(&negative) == 0.0, "{} {}", lobes(&shot), lobes(&negative));
}

#[test]
fn receivers_without_increasing_offsets_are_numbered() {
    let mut shot = spike(4, 10, 1.0);
    assert!(SeismogramPlot::new(&shot).to_svg().contains("offset / m"));
    shot.receivers = (0..4).map(|k| [200.0, 0.0, 10.0 * f64::from(k)]).collect();
    let svg = SeismogramPlot::new(&shot).to_svg();
    assert!(svg.contains("receiver") && !svg.contains("offset"));
}

#[test]
fn units_of_labels_have_raised_powers() {
    let label = |unit: &str| label_with_unit("u", unit);
    assert_eq!(label(""), "u");
    assert_eq!(label("Gyr"), "u (Gyr)");
    assert_eq!(label("1e10 Msun/kpc^3"), "u (10^{10} Msun/kpc^{3})");
    assert_eq!(label("K m^2/s"), "u (K m^{2}/s)");
    assert_eq!(label("a^b^-2 1ex"), "u (a^b^{-2} 1ex)");
}
