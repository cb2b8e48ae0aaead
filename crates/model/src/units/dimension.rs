//! Dimensions of quantities: powers of length, mass, time, temperature and angle.

use std::fmt;

/// Powers of length, mass, time, temperature and angle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Powers {
    /// Power of length.
    pub length: i32,
    /// Power of mass.
    pub mass: i32,
    /// Power of time.
    pub time: i32,
    /// Power of temperature.
    pub temperature: i32,
    /// Power of angle.
    pub angle: i32,
}

impl Powers {
    const fn new([length, mass, time, temperature]: [i32; 4]) -> Self {
        Self { length, mass, time, temperature, angle: 0 }
    }

    /// Returns the powers of this times `other` to the power `exponent`.
    pub fn times(self, other: Self, exponent: i32) -> Self {
        Self {
            length: self.length.saturating_add(exponent.saturating_mul(other.length)),
            mass: self.mass.saturating_add(exponent.saturating_mul(other.mass)),
            time: self.time.saturating_add(exponent.saturating_mul(other.time)),
            temperature: self.temperature.saturating_add(exponent.saturating_mul(other.temperature)),
            angle: self.angle.saturating_add(exponent.saturating_mul(other.angle)),
        }
    }
}

impl fmt::Display for Powers {
    /// Writes the name of the dimension, or else a product such as `length^5 time^-1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(named) = Dimension::ALL.iter().find(|dimension| dimension.powers() == *self) {
            return named.fmt(f);
        }
        let powers = [
            ("length", self.length),
            ("mass", self.mass),
            ("time", self.time),
            ("temperature", self.temperature),
            ("angle", self.angle),
        ];
        let factors = powers.iter().filter(|(_, power)| *power != 0).map(|(name, power)| match power {
            1 => (*name).to_owned(),
            power => format!("{name}^{power}"),
        });
        f.write_str(&factors.collect::<Vec<_>>().join(" "))
    }
}

/// Dimension of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Dimensionless.
    None,
    /// Angle, stored in radians.
    Angle,
    /// Length.
    Length,
    /// Mass.
    Mass,
    /// Time.
    Time,
    /// Length per time.
    Velocity,
    /// Energy. A temperature is accepted too, and multiplied by Boltzmann's constant.
    Energy,
    /// Temperature.
    Temperature,
    /// Mass per volume.
    Density,
    /// Waves per time.
    Frequency,
    /// Velocity per length.
    VelocityGradient,
    /// Area per time, the conductivity of a plate with heat capacity 1.
    Diffusivity,
    /// Heat per length, time and temperature.
    Conductivity,
    /// Heat per volume and temperature.
    HeatCapacity,
    /// Heat per volume and time.
    HeatSource,
    /// Heat per area and time.
    HeatFlux,
    /// Temperature per time, a heat source of a plate with heat capacity 1.
    HeatingRate,
    /// Temperature times length per time, a heat flux into a plate with heat capacity 1.
    TemperatureFlux,
    /// Particles per volume.
    NumberDensity,
    /// Particles per area.
    AreaDensity,
    /// Mass per area.
    MassPerArea,
    /// Energy per time.
    Power,
}

impl Dimension {
    /// All dimensions. Of two with the same powers, the first one names a unit in messages.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::Angle,
        Self::Length,
        Self::Mass,
        Self::Time,
        Self::Velocity,
        Self::Energy,
        Self::Temperature,
        Self::Density,
        Self::Frequency,
        Self::VelocityGradient,
        Self::Diffusivity,
        Self::Conductivity,
        Self::HeatCapacity,
        Self::HeatSource,
        Self::HeatFlux,
        Self::HeatingRate,
        Self::TemperatureFlux,
        Self::NumberDensity,
        Self::AreaDensity,
        Self::MassPerArea,
        Self::Power,
    ];

    /// Returns the powers of length, mass, time, temperature and angle.
    pub const fn powers(self) -> Powers {
        Powers::new(match self {
            Self::None => [0; 4],
            Self::Angle => return Powers { angle: 1, ..Powers::new([0; 4]) },
            Self::Length => [1, 0, 0, 0],
            Self::Mass => [0, 1, 0, 0],
            Self::Time => [0, 0, 1, 0],
            Self::Velocity => [1, 0, -1, 0],
            Self::Energy => [2, 1, -2, 0],
            Self::Temperature => [0, 0, 0, 1],
            Self::Density => [-3, 1, 0, 0],
            Self::Frequency | Self::VelocityGradient => [0, 0, -1, 0],
            Self::Diffusivity => [2, 0, -1, 0],
            Self::Conductivity => [1, 1, -3, -1],
            Self::HeatCapacity => [-1, 1, -2, -1],
            Self::HeatSource => [-1, 1, -3, 0],
            Self::HeatFlux => [0, 1, -3, 0],
            Self::HeatingRate => [0, 0, -1, 1],
            Self::TemperatureFlux => [1, 0, -1, 1],
            Self::NumberDensity => [-3, 0, 0, 0],
            Self::AreaDensity => [-2, 0, 0, 0],
            Self::MassPerArea => [-2, 1, 0, 0],
            Self::Power => [2, 1, -3, 0],
        })
    }

    /// Returns true if quantities have one of the named units, and no products of units.
    pub fn has_plain_units(self) -> bool {
        matches!(self, Self::None | Self::Angle | Self::Length | Self::Mass | Self::Time | Self::Temperature)
    }

    /// Unit in SI, such as `"kg/m^3"`.
    pub fn si_unit(self) -> &'static str {
        match self {
            Self::None => "1",
            Self::Angle => "rad",
            Self::Length => "m",
            Self::Mass => "kg",
            Self::Time => "s",
            Self::Velocity => "m/s",
            Self::Energy => "J",
            Self::Temperature => "K",
            Self::Density => "kg/m^3",
            Self::Frequency | Self::VelocityGradient => "1/s",
            Self::Diffusivity => "m^2/s",
            Self::Conductivity => "W/(m K)",
            Self::HeatCapacity => "J/(m^3 K)",
            Self::HeatSource => "W/m^3",
            Self::HeatFlux => "W/m^2",
            Self::HeatingRate => "K/s",
            Self::TemperatureFlux => "K m/s",
            Self::NumberDensity => "1/m^3",
            Self::AreaDensity => "1/m^2",
            Self::MassPerArea => "kg/m^2",
            Self::Power => "W",
        }
    }

    /// Name with its article, for error messages.
    pub fn with_article(self) -> String {
        let article = match self {
            Self::Angle | Self::Energy => "an",
            Self::HeatCapacity => return "a heat capacity per volume".to_owned(),
            _ => "a",
        };
        format!("{article} {self}")
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "number",
            Self::Angle => "angle",
            Self::Length => "length",
            Self::Mass => "mass",
            Self::Time => "time",
            Self::Velocity => "velocity",
            Self::Energy => "energy",
            Self::Temperature => "temperature",
            Self::Density => "density",
            Self::Frequency => "frequency",
            Self::VelocityGradient => "velocity per length",
            Self::Diffusivity => "diffusivity",
            Self::Conductivity => "conductivity",
            Self::HeatCapacity => "heat capacity",
            Self::HeatSource => "heat per volume and time",
            Self::HeatFlux => "heat flux",
            Self::HeatingRate => "temperature per time",
            Self::TemperatureFlux => "temperature × length per time",
            Self::NumberDensity => "number per volume",
            Self::AreaDensity => "number per area",
            Self::MassPerArea => "mass per area",
            Self::Power => "power",
        })
    }
}
