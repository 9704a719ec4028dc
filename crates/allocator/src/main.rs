//! allocator
fn main() {}
