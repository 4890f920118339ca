//! The test bench.
