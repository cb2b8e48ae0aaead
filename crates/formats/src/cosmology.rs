//! Cosmological snapshots: how a header identifies them, and the conversion to physical
//! coordinates.
//!
//! GADGET stores comoving coordinates x, masses M and velocities u, in units with a factor of the
//! Hubble parameter h. At the scale factor a = 1 / (1 + z), the physical values are
//!
//! ```text
//! r = x a / h        m = M / h        v = u sqrt(a)
//! ```
//!
//! where v is the peculiar velocity, without the Hubble flow (GADGET-2 user guide, section 6).
//! Orrery has neither an expanding background nor periodic forces, so a cosmological snapshot is
//! refused unless the caller asks for a conversion.

use crate::error::Fault;

/// Treatment of a cosmological snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comoving {
    /// An error, because the numbers would be taken for physical ones.
    Refuse,
    /// Conversion to physical coordinates, masses and peculiar velocities. The time becomes 0.
    ToPhysical,
    /// The numbers of the file.
    Unchanged,
}

/// Provenance entry for a header with a periodic box.
pub const PERIODIC_BOX: &str = "periodic box";
/// Provenance entry for a header with a Hubble parameter that is not 0 or 1.
pub const HUBBLE_PARAMETER: &str = "Hubble parameter";
const COSMOLOGY: &str = "cosmology";
/// Start of the provenance text of comoving numbers. The expansion factor follows.
const COMOVING_AT: &str = "comoving numbers at expansion factor ";

/// Returns the expansion factor that the provenance of comoving numbers records.
pub fn recorded_expansion_factor(provenance: &[(String, String)]) -> Option<f64> {
    let (_, text) = provenance.iter().find(|(name, _)| name == COSMOLOGY)?;
    text.strip_prefix(COMOVING_AT)?.split(',').next()?.parse().ok()
}

/// Header fields that identify a cosmological snapshot. An absent field is `None`.
#[derive(Clone, Debug, Default)]
pub struct CosmologyFields {
    /// Name and value of the field that says whether the run was cosmological.
    pub flag: Option<(&'static str, bool)>,
    /// Time, or the scale factor of a cosmological snapshot.
    pub time: Option<f64>,
    pub redshift: Option<f64>,
    pub omega0: Option<f64>,
    pub hubble: Option<f64>,
    pub box_size: Option<f64>,
}

impl CosmologyFields {
    /// Whether the snapshot is cosmological.
    ///
    /// Programs write `Redshift = 0` without cosmology, and the matter density and Hubble parameter
    /// of their parameter file in any case. At redshift 0, a cosmological snapshot therefore has
    /// the scale factor 1 as its time.
    fn is_cosmological(&self) -> bool {
        let redshift = self.redshift.unwrap_or(0.0);
        let is_at_present =
            || (self.time.unwrap_or(0.0) - 1.0).abs() < 1e-6 && self.omega0.unwrap_or(0.0) > 0.0;
        match self.flag {
            Some((_, flag)) => flag,
            None => redshift != 0.0 || is_at_present(),
        }
    }

    /// Lists the fields of the file, for example `Redshift = 1, HubbleParam = 0.7`.
    fn list(&self) -> String {
        let flag = self.flag.map(|(name, value)| (name, f64::from(u8::from(value))));
        let fields = [
            ("Redshift", self.redshift),
            ("Time", self.time),
            ("Omega0", self.omega0),
            ("HubbleParam", self.hubble),
            ("BoxSize", self.box_size),
        ];
        let known = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        flag.into_iter()
            .chain(known)
            .map(|(name, value)| format!("{name} = {value}"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the treatment of the values, or an error for a cosmological snapshot that is to be
    /// refused or cannot be converted.
    pub fn treatment(&self, comoving: Comoving) -> Result<Treatment, Fault> {
        let mut notes = Vec::new();
        let is_cosmological = self.is_cosmological();
        let mut conversion = None;
        if is_cosmological {
            match comoving {
                Comoving::Refuse => return Err(Fault::Cosmological { fields: self.list() }),
                Comoving::ToPhysical => {
                    conversion = Some(self.conversion()?);
                    let note =
                        "converted to physical coordinates and peculiar velocities, time 0 is this snapshot";
                    notes.push((COSMOLOGY, format!("{note}: {}", self.list())));
                }
                Comoving::Unchanged => {
                    let a = self.expansion_factor();
                    notes.push((COSMOLOGY, format!("{COMOVING_AT}{a}, unchanged: {}", self.list())));
                }
            }
        }
        if let Some(size) = self.box_size.filter(|&size| size != 0.0) {
            notes.push((PERIODIC_BOX, format!("BoxSize = {size}, but forces are not periodic")));
        }
        if let Some(h) = self.hubble.filter(|&h| h != 0.0 && h != 1.0 && !is_cosmological) {
            let note = format!("HubbleParam = {h}, values may be in units of 1/h and are unchanged");
            notes.push((HUBBLE_PARAMETER, note));
        }
        let notes = notes.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        Ok(Treatment { conversion, notes })
    }

    /// Returns a = 1 / (1 + z). GADGET stores it as the time, and a file without redshift has only
    /// that.
    fn expansion_factor(&self) -> f64 {
        self.redshift.map_or_else(|| self.time.unwrap_or(1.0), |z| 1.0 / (1.0 + z))
    }

    fn conversion(&self) -> Result<Conversion, Fault> {
        let redshift = self.redshift.unwrap_or(0.0);
        let a = 1.0 / (1.0 + redshift);
        if !(a.is_finite() && a > 0.0) {
            return Err(Fault::malformed("header field Redshift", redshift.to_string(), "a number > -1"));
        }
        let h = self.hubble.unwrap_or(1.0);
        if !(h.is_finite() && h > 0.0) {
            return Err(Fault::malformed("header field HubbleParam", h.to_string(), "a number > 0"));
        }
        Ok(Conversion { a, h })
    }
}

/// How a reader treats the values of a snapshot.
pub struct Treatment {
    /// Conversion to physical values, or `None` to use the values of the file.
    pub conversion: Option<Conversion>,
    /// Provenance entries about values that may be misread, as names and texts.
    pub notes: Vec<(String, String)>,
}

impl Treatment {
    /// Returns the time of the snapshot. A scale factor is no time, so a converted snapshot has
    /// time 0.
    pub fn time(&self, header_time: f64) -> f64 {
        if self.conversion.is_some() { 0.0 } else { header_time }
    }
}

/// Scale factor and Hubble parameter of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    a: f64,
    h: f64,
}

/// Exponents p and q of a factor a^p h^q.
#[derive(Clone, Copy, Debug)]
pub struct Exponents {
    pub a: f64,
    pub h: f64,
}

impl Exponents {
    /// GADGET's coordinates.
    pub const POSITION: Self = Self { a: 1.0, h: -1.0 };
    /// GADGET's velocities.
    pub const VELOCITY: Self = Self { a: 0.5, h: 0.0 };
    /// GADGET's masses.
    pub const MASS: Self = Self { a: 0.0, h: -1.0 };
}

impl Conversion {
    /// Returns the factor from values of the file to physical values.
    pub fn factor(self, exponents: Exponents) -> f64 {
        power(self.a, exponents.a) * power(self.h, exponents.h)
    }
}

/// Returns `base` to the power `exponent`. The exponents of GADGET are correctly rounded, so that
/// they give the same bits on every machine.
fn power(base: f64, exponent: f64) -> f64 {
    match exponent {
        0.0 => 1.0,
        0.5 => base.sqrt(),
        1.0 => base,
        -1.0 => 1.0 / base,
        other => base.powf(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(time: f64, redshift: f64, omega0: f64) -> CosmologyFields {
        CosmologyFields {
            time: Some(time),
            redshift: Some(redshift),
            omega0: Some(omega0),
            ..CosmologyFields::default()
        }
    }

    #[test]
    fn redshift_or_scale_factor_one_with_matter_is_cosmological() {
        assert!(fields(0.5, 1.0, 0.3).is_cosmological());
        assert!(fields(0.5, 1.0, 0.0).is_cosmological());
        assert!(fields(0.0, f64::NAN, 0.0).is_cosmological());
        assert!(fields(1.0, 0.0, 0.3).is_cosmological());
        // An isolated galaxy whose parameter file has a matter density.
        assert!(!fields(0.5, 0.0, 0.3).is_cosmological());
        // Files of Orrery.
        assert!(!fields(1.0, 0.0, 0.0).is_cosmological());
        assert!(!CosmologyFields::default().is_cosmological());
    }

    /// A flag of the file decides, for example for a galaxy at time 1.
    #[test]
    fn flag_decides() {
        let flag = |value| Some(("ComovingIntegrationOn", value));
        assert!(!CosmologyFields { flag: flag(false), ..fields(1.0, 0.0, 0.3) }.is_cosmological());
        assert!(CosmologyFields { flag: flag(true), ..fields(0.1, 0.0, 0.0) }.is_cosmological());
    }

    /// z = 3 and h = 0.5 give a = 1/4, so all factors are exact.
    #[test]
    fn factors_of_gadget() {
        let fields = CosmologyFields { hubble: Some(0.5), ..fields(0.25, 3.0, 0.3) };
        let treatment = fields.treatment(Comoving::ToPhysical).unwrap();
        let conversion = treatment.conversion.unwrap();
        let factors =
            [Exponents::POSITION, Exponents::VELOCITY, Exponents::MASS].map(|e| conversion.factor(e));
        assert_eq!(factors, [0.5, 0.5, 2.0]);
    }

    #[test]
    fn bad_fields_are_not_converted() {
        let error =
            |fields: CosmologyFields| fields.treatment(Comoving::ToPhysical).err().unwrap().to_string();
        let message = error(fields(0.0, -1.0, 0.3));
        assert_eq!(message, "header field Redshift: got -1, expected a number > -1");
        let message = error(CosmologyFields { hubble: Some(0.0), ..fields(0.5, 1.0, 0.3) });
        assert_eq!(message, "header field HubbleParam: got 0, expected a number > 0");
    }
}
