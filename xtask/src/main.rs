//! Generates the files that are derived from code.

fn main() {}
