use crate::client::Endpoint;
use crate::exit::Exit;
use crate::failure::CliError;
pub(crate) const KEYS_HELP: &str = "";
pub(crate) async fn watch(_e: &Endpoint) -> Result<Exit, CliError> {
    Err(CliError::usage("not yet"))
}
