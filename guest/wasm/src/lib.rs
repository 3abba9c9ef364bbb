//! The exports.
