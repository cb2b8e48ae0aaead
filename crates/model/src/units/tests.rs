//! Tests of unit systems and quantities.

use super::*;

#[test]
fn gravitational_constants_match_known_values() {
    assert_eq!(Units::NBody.gravitational_constant(), 1.0);
    // By Kepler's third law a massless planet at 1 au has a period of 365.2569 days, the
    // Gaussian year.
    let four_pi2 = 4.0 * std::f64::consts::PI.powi(2);
    let period_days = 365.25 * (four_pi2 / Units::Solar.gravitational_constant()).sqrt();
    assert!((period_days - 365.256_898).abs() < 1e-5, "{period_days}");
    // The usual value for GADGET is G = 43007.1 kpc (km/s)² / 10¹⁰ Msun, to the digits of its
    // solar mass.
    assert!((Units::Galactic.gravitational_constant() - 43007.1).abs() < 4.0);
}

#[test]
fn quantities_are_converted() {
    let galactic = |text, dimension| Units::Galactic.parse(text, dimension).unwrap();
    assert_eq!(galactic("1 kpc", Dimension::Length), 1.0);
    assert_eq!(galactic("500pc", Dimension::Length), 0.5);
    assert!((galactic("220 km/s", Dimension::Velocity) - 220.0).abs() < 1e-10);
    assert!((galactic("1e10 Msun", Dimension::Mass) - 1.0).abs() < 1e-14);
    assert!((galactic("180 deg", Dimension::Angle) - std::f64::consts::PI).abs() < 1e-15);
    assert_eq!(galactic("3.", Dimension::Time), 3.0);
    assert_eq!(Units::Si.parse("20 mm", Dimension::Length), Ok(0.02));
    assert_eq!(Units::Si.parse("2 min", Dimension::Time), Ok(120.0));
    let real = |text, dimension| Units::Real.parse(text, dimension).unwrap();
    assert!((real("3.4 Å", Dimension::Length) - 3.4).abs() < 1e-14);
    assert!((real("0.34 nm", Dimension::Length) - 3.4).abs() < 1e-14);
    assert_eq!(real("39.948 u", Dimension::Mass), 39.948);
    assert!((real("10 fs", Dimension::Time) - 0.01).abs() < 1e-17);
    assert!((real("1 kJ/mol", Dimension::Energy) - 100.0).abs() < 1e-6);
    assert_eq!(real("94.4 K", Dimension::Temperature), 94.4);
    // 0.8314 = R / 10 in kJ/(mol K) per 0.01 kJ/mol.
    assert!((real("120 K", Dimension::Energy) - 120.0 * 0.831_446_26).abs() < 1e-5);
    assert_eq!(real("120 K", Dimension::Energy), 120.0 * Units::Real.boltzmann_constant());
    assert!((real("1.374 g/cm^3", Dimension::Density) - 0.827_442).abs() < 1e-6);
    assert_eq!(Units::LennardJones.parse("0.85", Dimension::Temperature), Ok(0.85));
    assert_eq!(Units::LennardJones.boltzmann_constant(), 1.0);
}

#[test]
fn errors_name_the_expected_unit() {
    let assert_error = |units: Units, text: &str, dimension, expected: &str| {
        let message = units.parse(text, dimension).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    assert_error(Units::Galactic, "kpc", Dimension::Length, "'kpc' is not a quantity");
    assert_error(Units::Galactic, "", Dimension::Length, "not a quantity");
    for (text, same, dimension) in [
        ("100 \u{3bc}m", "100 \u{b5}m", Dimension::Length),
        ("5 \u{3bc}s", "5 \u{b5}s", Dimension::Time),
        ("3.4 \u{212b}", "3.4 \u{c5}", Dimension::Length),
        ("2 1/\u{212b}^3", "2 1/\u{c5}^3", Dimension::NumberDensity),
    ] {
        assert_eq!(Units::Real.parse(text, dimension), Units::Real.parse(same, dimension), "{text}");
        assert!(Units::Real.parse(text, dimension).is_ok(), "{text}");
    }
    assert_error(Units::Galactic, "µ", Dimension::Length, "not a quantity");
    assert_error(Units::Galactic, "1 parsec", Dimension::Length, "unknown unit 'parsec', expected a length");
    assert_error(Units::Galactic, "1 Myr", Dimension::Length, "'Myr' is a unit of time, expected a length");
    assert_error(
        Units::Galactic,
        "1 grad",
        Dimension::Angle,
        "unknown unit 'grad', expected an angle such as",
    );
    assert_error(Units::Galactic, "1 kpc", Dimension::Angle, "is a unit of length, expected an angle such");
    assert_error(Units::NBody, "1 kpc", Dimension::Length, "no meaning in nbody units");
    assert_error(Units::LennardJones, "94 K", Dimension::Temperature, "has no meaning in lj units");
    assert_error(Units::Real, "1 K", Dimension::Length, "'K' is a unit of temperature, expected a length");
    assert_error(Units::Real, "1 u", Dimension::Temperature, "expected a temperature such as \"94.4 K\"");
    assert_error(Units::Dimensionless, "1 mm", Dimension::Length, "expected a plain number; or set units");
}

/// Sizes have a few roundings.
#[test]
fn surface_densities_have_units_of_their_lengths() {
    let shown = |units: Units| units.shown_surface_density();
    assert_eq!((shown(Units::Galactic).name, shown(Units::Solar).name), ("Msun/kpc^2", "Msun/au^2"));
    assert!((shown(Units::Galactic).size / 1e-10 - 1.0).abs() < 1e-14);
    assert!((shown(Units::Solar).size - 1.0).abs() < 1e-14);
    assert_eq!(shown(Units::Si), ShownUnit { name: "kg/m^2", size: 1.0 });
    assert_eq!(shown(Units::NBody), ShownUnit { name: "", size: 1.0 });
}

#[test]
fn systems_with_the_same_scale_are_the_same() {
    let scale = Units::Solar.scale().unwrap();
    let rounded = Units::Custom(UnitScale { mass: scale.mass * (1.0 + 1e-12), ..scale });
    assert!(Units::Solar.is_same_as(&rounded) && rounded.is_same_as(&Units::Solar));
    for other in [Units::NBody, Units::Galactic, Units::Custom(UnitScale { time: 2.0 * scale.time, ..scale })]
    {
        assert!(!Units::Solar.is_same_as(&other) && !other.is_same_as(&Units::Solar), "{other:?}");
    }
    let text = Units::Custom(UnitScale { length: 1.5, mass: 2e30, time: 3.0 }).describe();
    assert_eq!(text, "custom (length 1.5e0 m, mass 2e30 kg, time 3e0 s)");
}

#[test]
fn times_and_lengths_use_the_largest_unit_they_reach() {
    assert_eq!(Units::Solar.format_time(100.0), "100 yr");
    assert_eq!(Units::Solar.format_time(2.5e6), "2.5 Myr");
    assert_eq!(Units::NBody.format_time(0.5), "0.5");
    assert_eq!([0.0, 1e-4, 10.0].map(|time| Units::NBody.format_time(time)), ["0", "0.0001", "10"]);
    assert_eq!([4e-5, -1e-90].map(|time| Units::NBody.format_time(time)), ["4.000e-5", "-1.000e-90"]);
    assert_eq!(Units::NBody.format_time(1e300), "1.000e300");
    assert_eq!(Units::NBody.format_time(f64::NAN), "NaN");
    assert_eq!(Units::Solar.format_time(1e-15), "3.156e-8 s");
    let in_message = |time| Units::Dimensionless.format_time_in_message(time);
    assert_eq!([7.12345, 0.001_234_567, 0.0].map(in_message), ["7.123", "0.001235", "0"]);
    assert_eq!(Units::Si.format_time_in_message(0.501_32), "501.3 ms");
    assert_eq!(Units::Galactic.format_length(0.05), "50 pc");
    assert_eq!([0.0, 0.25, 7200.0].map(|time| Units::Si.format_time(time)), ["0 s", "250 ms", "2 h"]);
    assert_eq!([0.0, 0.02].map(|length| Units::Si.format_length(length)), ["0 m", "20 mm"]);
    assert_eq!(Units::Dimensionless.format_time(0.25), "0.25");
    assert_eq!([0.0, 0.004, 2500.0].map(|time| Units::Real.format_time(time)), ["0 ps", "4 fs", "2.5 ns"]);
    assert_eq!([3.4, 36.0].map(|length| Units::Real.format_length(length)), ["3.4 Å", "3.6 nm"]);
    let lengths = [1.0 / 3.0, 1234.567, 0.0].map(|length| Units::Dimensionless.format_length(length));
    assert_eq!(lengths, ["0.3333", "1235", "0"]);
    assert_eq!(Units::Si.format_length(1234.567), "1.235 km");
}

#[test]
fn products_of_units_are_converted() {
    let si =
        |text: &str, dimension| Units::Si.parse(text, dimension).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(si("15 Hz", Dimension::Frequency), 15.0);
    assert_eq!(si("2kHz", Dimension::Frequency), 2000.0);
    for text in
        ["0.6 1/s", "0.6 s^-1", "0.6 s⁻¹", "0.6 /s", "0.6 (m/s)/m", "0.6 m/s/m", "0.6 Hz", "600 m/s/km"]
    {
        assert!((si(text, Dimension::VelocityGradient) - 0.6).abs() < 1e-15, "{text}");
    }
    for text in [
        "1e-4 m^2/s",
        "1e-4 m²/s",
        "1e-4 m² s⁻¹",
        "1 cm^2/s",
        "100 mm^2/s",
        "1e-4 m*m/s",
        "1e-4 m·m/s",
        "1e-4 m2/s",
        "1e-4 m2 s-1",
    ] {
        assert!((si(text, Dimension::Diffusivity) - 1e-4).abs() < 1e-18, "{text}");
    }
    for text in ["401 W/(m K)", "401 W/m/K", "401 W m^-1 K^-1", "4.01 W/(cm K)", "0.401 kW/(m*K)"] {
        assert!((si(text, Dimension::Conductivity) - 401.0).abs() < 1e-12, "{text}");
    }
    assert!((si("3.44 J/(cm^3 K)", Dimension::HeatCapacity) - 3.44e6).abs() < 1e-8);
    assert_eq!(si("2 K/min", Dimension::HeatingRate), 2.0 / 60.0);
    assert_eq!(si("0.1 K m/s", Dimension::TemperatureFlux), 0.1);
    assert!((si("5 kg m^2/s^2", Dimension::Energy) - 5.0).abs() < 1e-15);
    let real = |text: &str, dimension| Units::Real.parse(text, dimension).unwrap();
    assert!((real("21.1 1/nm^3", Dimension::NumberDensity) - 0.0211).abs() < 1e-16);
    assert!((real("8.6 1/nm²", Dimension::AreaDensity) - 0.086).abs() < 1e-15);
    assert!((real("1 u/Å^2", Dimension::MassPerArea) - 1.0).abs() < 1e-12);
}

#[test]
fn products_with_two_readings_and_texts_that_are_not_units_are_refused() {
    let deep = format!("1 {}s{}", "(".repeat(60), ")".repeat(60));
    let large = format!("1 {}s{}", "(".repeat(20), ")^9".repeat(20));
    for text in [
        "1 W/m K",
        "1 m^2/s K",
        "1 1",
        "1 ()",
        "1 (m",
        "1 m)",
        "1 m^",
        "1 m^0",
        "1 m^12",
        "1 m⁻",
        "1 m//s",
        "1 m/",
        "1 /",
        "1 m^2^2",
        "1 Hz^",
        "1 2/s",
        "1 11/s",
        "1 1.5/s",
        "1 m22",
        &deep,
        &large,
    ] {
        assert!(Units::Si.parse(text, Dimension::Diffusivity).is_err(), "{text}");
    }
    let refused = |units: Units, text: &str| units.parse(text, Dimension::Velocity).unwrap_err().to_string();
    assert_eq!(refused(Units::Dimensionless, "fast"), "'fast' is not a quantity, expected a plain number");
    assert_eq!(refused(Units::NBody, "1 parsec/s"), "unknown unit 'parsec/s', expected a plain number");
    assert_eq!(refused(Units::LennardJones, "1 K"), "'K' is a unit of temperature, expected a plain number");
    // A product is not a length, even if its powers are those of one.
    let error = Units::Si.parse("3 m^2/m", Dimension::Length).unwrap_err().to_string();
    assert!(error.starts_with("unknown unit 'm^2/m', expected a length such as"), "{error}");
}

/// Every example of a message is accepted, and a unit of another dimension is refused by the name
/// of the right one.
#[test]
fn every_dimension_has_examples_and_names_itself() {
    for units in [Units::Si, Units::Real, Units::Galactic] {
        for &dimension in Dimension::ALL.iter().filter(|dimension| **dimension != Dimension::None) {
            let examples = units.examples(dimension);
            let texts: Vec<&str> = examples.split('"').skip(1).step_by(2).collect();
            assert!(!texts.is_empty(), "{dimension:?}");
            for text in texts {
                assert!(units.parse(text, dimension).is_ok(), "{dimension:?}: {text}");
            }
            let si = format!("1 {}", dimension.si_unit());
            let value = Units::Si.parse(&si, dimension).unwrap();
            assert!(value == 1.0, "{si} is {value}");
            let error = units.parse("1 kg^5", dimension).unwrap_err().to_string();
            let expected =
                format!("'kg^5' is a unit of mass^5, expected {} such as ", dimension.with_article());
            assert!(error.starts_with(&expected), "{error}");
        }
    }
    let error = Units::Si.parse("15 m", Dimension::Frequency).unwrap_err().to_string();
    assert!(error.starts_with("'m' is a unit of length, expected a frequency such as \"15 Hz\""), "{error}");
}
