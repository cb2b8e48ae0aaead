//! Lennard-Jones fluids against LAMMPS (2025-07-22), with the same initial states. The numbers are
//! those that `lammps_fluids.py` prints.

use std::fmt::Write;

use orrery_device::DeviceChoice;
use orrery_model::analysis::max_or_nan;
use orrery_validation::fluids::run_fluid;

/// Returns the text of a data file of LAMMPS: a cubic lattice of `cells`³ particles, displaced and
/// moving by numbers from integers. `lammps_fluids.py` writes the same digits.
fn data_file(cells: usize, spacing: f64, displacement: f64, speed: f64) -> String {
    let (n, side) = (cells.pow(3), cells as f64 * spacing);
    let shift = |k: usize, factor: usize| (((k * factor) % 101) as f64 - 50.0) / 50.0;
    let mut text = format!("fluid\n\n{n} atoms\n1 atom types\n\n");
    for axis in ["x", "y", "z"] {
        writeln!(text, "0 {side:.6} {axis}lo {axis}hi").unwrap();
    }
    text += "\nAtoms # atomic\n\n";
    for k in 0..n {
        let site = [k % cells, k / cells % cells, k / cells.pow(2)];
        let x = |axis: usize, factor: usize| {
            (site[axis] as f64 + 0.5) * spacing + displacement * shift(k + 1, factor)
        };
        writeln!(text, "{} 1 {:.6} {:.6} {:.6}", k + 1, x(0, 37), x(1, 59), x(2, 83)).unwrap();
    }
    text += "\nVelocities\n\n";
    for k in 0..n {
        let v = |factor: usize| speed * shift(k + 1, factor);
        writeln!(text, "{} {:.6} {:.6} {:.6}", k + 1, v(23), v(47), v(71)).unwrap();
    }
    text
}

/// Values of LAMMPS: temperature, potential and total energy per particle, pressure.
struct Expected {
    start: [f64; 4],
    end: [f64; 4],
}

/// Runs a case from a data file and compares the first and the last row. Temperatures and energies
/// differ by at most `tolerance` times the largest of them, and pressures by as much relative to
/// the largest pressure.
fn compare(data: &str, potential: &str, dt: f64, steps: u32, expected: Expected, tolerance: f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fluid.data");
    std::fs::write(&path, data).unwrap();
    let case = format!(
        "particles.file = {path:?}\nlennard_jones = {{ {potential} }}\ntime = {{ step = {dt}, end = {} }}\n\
         output = {{ record_every = \"{steps} steps\", snapshot_every = 0, image_every = 0 }}\n",
        dt * f64::from(steps)
    );
    for precision in ["mixed", "double"] {
        let set = format!("lennard_jones.precision={precision}");
        let run = run_fluid(&case, &[&set], DeviceChoice::Cpu);
        let names = ["temperature", "potential", "total", "pressure"];
        let columns = names.map(|name| run.column(name));
        for (row, expected) in [(0, expected.start), (columns[0].len() - 1, expected.end)] {
            let found = [0, 1, 2, 3].map(|k| columns[k][row]);
            println!("{precision}, row {row}: {found:?}");
            let energy = expected[..3].iter().map(|x| x.abs()).fold(0.0, max_or_nan);
            for k in 0..4 {
                let scale = if k < 3 { energy } else { expected[3].abs() };
                let error = (found[k] - expected[k]).abs() / scale;
                assert!(error < tolerance, "{}: {} {}", names[k], found[k], expected[k]);
            }
        }
    }
}

/// Particles 8 σ apart with a cutoff of 15 σ. They start at rest, so their kinetic energy of 6e-6 ε
/// is the work of forces of 1e-5 ε/σ.
#[test]
fn far_forces_move_particles_as_in_lammps() {
    let expected = Expected {
        start: [0.0, -6.184970033336e-05, -6.184970033336e-05, -2.415995278298e-07],
        end: [3.929816354210e-06, -6.765779067635e-05, -6.185517121584e-05, -2.567313959555e-07],
    };
    compare(&data_file(4, 8.0, 0.5, 0.0), "cutoff = 15", 0.5, 400, expected, 1e-5);
}

/// A kinetic energy of 10^8 ε per particle.
#[test]
fn a_shallow_potential_has_the_temperature_of_lammps() {
    let expected = Expected {
        start: [7.654463541667e-01, -1.292337283123e-11, 1.130229382311, 2.790689832804e-02],
        end: [7.654463552234e-01, -1.726057971250e-09, 1.130229382159, 2.790689827154e-02],
    };
    let potential = "species = [{ epsilon = 1e-8 }]";
    compare(&data_file(4, 3.0, 0.3, 1.5), potential, 0.01, 100, expected, 1e-11);
}

/// Liquids of 1,000 particles with a long cutoff, with tail corrections, and with a switch, which
/// is that of `lj/gromacs`. In 50 steps, rounding errors of f32 grow to 1e-6.
#[test]
fn liquids_have_the_energies_and_pressures_of_lammps() {
    let data = data_file(10, 1.08, 0.05, 1.5);
    let expected = Expected {
        start: [7.650669726727e-01, -5.219408911135, -4.072956052585, 9.080679871354e-01],
        end: [5.036728395380e-01, -4.827642634397, -4.072888884350, 2.363913974563],
    };
    compare(&data, "cutoff = 5, truncation = \"shifted\"", 0.002, 50, expected, 2e-6);
    let expected = Expected {
        start: [7.650669726727e-01, -5.345240972932, -4.198788114382, 7.959245444707e-01],
        end: [5.037838445163e-01, -4.931319937825, -4.176399846818, 2.288279559777],
    };
    compare(&data, "cutoff = 2.5, tail_corrections = true", 0.002, 50, expected, 2e-6);
    let expected = Expected {
        start: [7.650669726727e-01, -4.233966302167, -3.087513443617, 1.807717424015],
        end: [5.034102290796e-01, -3.841806621477, -3.087446393201, 3.249838042341],
    };
    compare(&data, "cutoff = 2.5, truncation = \"switched\"", 0.002, 50, expected, 2e-6);
}
