//! Files of settings: what their mistakes are called.

/// The line of a file that begins with a name.
pub fn line_of(text: &str, name: &str) -> usize {
    let begins = |line: &str| line.trim_start().trim_start_matches('"').starts_with(name);
    text.lines().position(begins).map_or(1, |index| index + 1)
}

/// A mistake in TOML with its line, in one line.
pub fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    let Some(span) = error.span() else {
        return message;
    };
    let before = text.get(..span.start).unwrap_or(text);
    format!("line {}: {message}", before.matches('\n').count() + 1)
}
