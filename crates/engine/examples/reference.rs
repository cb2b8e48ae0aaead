//! Writes docs/reference/case.md to the path in the argument, for `cargo xtask reference`.

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).ok_or(std::io::Error::other("expected the path of the page"))?;
    std::fs::write(path, orrery_engine::case::reference_page())
}
