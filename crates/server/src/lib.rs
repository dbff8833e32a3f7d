#![forbid(unsafe_code)]

mod peer;
