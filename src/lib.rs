//! restow.
