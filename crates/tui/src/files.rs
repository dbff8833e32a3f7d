//! Files of settings: what their mistakes are called.

/// A mistake in TOML with its line, in one line.
pub fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    let Some(span) = error.span() else {
        return message;
    };
    let before = text.get(..span.start).unwrap_or(text);
    format!("line {}: {message}", before.matches('\n').count() + 1)
}
