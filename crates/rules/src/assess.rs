//! Assessing: a request taken apart, before any rule is looked at.

use crate::facts::Facts;
use crate::request::Request;

/// A request taken apart.
#[derive(Clone, Debug)]
pub struct Assessment {}

/// Takes a request apart.
pub fn assess(request: &Request, facts: &dyn Facts) -> Assessment {
    let _ = (request, facts);
    Assessment {}
}
