//! wecom-sim
fn main() {}
