//! The same agents under rules: what is allowed runs by itself, what is denied never runs.
