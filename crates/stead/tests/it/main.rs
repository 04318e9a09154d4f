//! Black-box tests of the binary.

mod cli;
mod guides;
mod rows;
