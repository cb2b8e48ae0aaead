//! Draws the electrostatic potential of a ring of six water molecules in a plane above them, as a
//! PNG file: `cargo run --release -p orrery-lab --example coulomb_map -- coulomb-map.png`

use std::f64::consts::PI;
use std::path::PathBuf;

use orrery_draw::picture::{
    ColourMap, FieldPicture, RegionKind, RegionMark, ValueRange, render_field, write_png,
};
use orrery_lab::experiments::coulomb::{Charge, PointGrid, potential_on_all_cores};
use orrery_model::grid::{Boundaries, Boundary, Grid, RegionShape};

/// Partial charges of the TIP3P model of water (Jorgensen et al. 1983), in elementary charges.
const OXYGEN: f64 = -0.834;
const HYDROGEN: f64 = 0.417;
/// Length of the bond of oxygen and hydrogen, in angstrom, and the angle between two of them.
const BOND: f64 = 0.9572;
const BOND_ANGLE: f64 = 104.52 / 180.0 * PI;
/// Distance of an oxygen from the centre of the ring, in angstrom.
const RING_RADIUS: f64 = 2.75;
/// Height of the plane above the molecules, in angstrom.
const HEIGHT: f32 = 0.8;
/// Volts of an elementary charge at a distance of 1 angstrom: e / (4 pi eps_0).
const VOLT_ANGSTROM: f64 = 14.399_645;
/// Side of the picture in angstrom, and its points per side.
const SIDE: f64 = 11.0;
const POINTS: usize = 400;

/// Returns the atoms of the ring: x, y and charge. Each molecule has one hydrogen on the line to
/// the next oxygen, which is a hydrogen bond, and one that points away from the ring.
fn water_ring() -> Vec<[f64; 3]> {
    let oxygen_at = |molecule: usize| {
        let angle = molecule as f64 * PI / 3.0;
        [SIDE / 2.0 + RING_RADIUS * angle.cos(), SIDE / 2.0 + RING_RADIUS * angle.sin()]
    };
    let mut atoms = Vec::new();
    for molecule in 0..6 {
        let ([x, y], [next_x, next_y]) = (oxygen_at(molecule), oxygen_at(molecule + 1));
        atoms.push([x, y, OXYGEN]);
        let to_next = (next_y - y).atan2(next_x - x);
        for direction in [to_next, to_next - BOND_ANGLE] {
            atoms.push([x + BOND * direction.cos(), y + BOND * direction.sin(), HYDROGEN]);
        }
    }
    atoms
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("coulomb-map.png"), PathBuf::from);
    let atoms = water_ring();
    let charges: Vec<Charge> =
        atoms.iter().map(|&[x, y, charge]| [x as f32, y as f32, 0.0, charge as f32]).collect();
    let h = SIDE / (POINTS - 1) as f64;
    let grid = PointGrid::new([POINTS, POINTS, 1], [0.0, 0.0, HEIGHT], h as f32);
    let potential = potential_on_all_cores(&charges, &grid);
    let volts: Vec<f64> = potential.iter().map(|&value| VOLT_ANGSTROM * f64::from(value)).collect();

    // Larger circles for oxygen than for hydrogen.
    let outline = |&[x, y, charge]: &[f64; 3]| {
        let radius = if charge < 0.0 { 0.5 } else { 0.25 };
        RegionMark { shape: RegionShape::Disc { centre: [x, y], radius }, kind: RegionKind::Source }
    };
    let plate = Grid { nx: POINTS, ny: POINTS, hx: h, hy: h };
    let picture = FieldPicture {
        colours: ColourMap::diverging(),
        shows_edges: false,
        regions: atoms.iter().map(outline).collect(),
        title: "six water molecules".into(),
        length_unit: "angstrom".into(),
        quantity: "potential".into(),
        unit: "V".into(),
        ..FieldPicture::new(plate, Boundaries::uniform(Boundary::INSULATED), (720, 640))
    };
    let range = ValueRange { low: -6.0, high: 6.0 };
    let pixels = picture.fitted_pixels(720, range);
    let image = render_field(&volts, &FieldPicture { pixels, ..picture }, range, "")?;
    write_png(&path, &image, &[("Software", "orrery coulomb_map")])?;
    println!("{}", path.display());
    Ok(())
}
