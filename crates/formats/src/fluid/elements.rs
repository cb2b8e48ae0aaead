//! Chemical elements, because some readers of XYZ files accept only their symbols.

use super::FluidSpecies;

/// Symbols in the order of the atomic numbers, from 1.
const SYMBOLS: &str = "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge \
    As Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er \
    Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf \
    Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og";

/// Returns a number from 1 to 118 for each species. If all names are symbols of elements, these are
/// the atomic numbers. Otherwise the species are counted from 1.
pub(super) fn atomic_numbers(species: &[FluidSpecies]) -> Vec<usize> {
    let number = |name: &str| SYMBOLS.split_ascii_whitespace().position(|symbol| symbol == name);
    let numbers: Option<Vec<usize>> =
        species.iter().map(|species| number(&species.name).map(|index| index + 1)).collect();
    numbers.unwrap_or_else(|| (0..species.len()).map(|index| index % 118 + 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_their_atomic_numbers() {
        let numbers = |names: &[&str]| {
            let species = |name: &&str| FluidSpecies { name: (*name).to_owned(), mass: 1.0, sigma: 1.0 };
            atomic_numbers(&names.iter().map(species).collect::<Vec<_>>())
        };
        assert_eq!(numbers(&["Ar", "H", "Og"]), [18, 1, 118]);
        // B is boron, but A is not an element.
        assert_eq!(numbers(&["A", "B"]), [1, 2]);
        assert!(numbers(&[]).is_empty());
    }
}
