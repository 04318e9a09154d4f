//! Black-box tests of the binary.

mod cli;
mod rows;
