//! The scripted model by itself, to try an agent by hand.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use countersign_testkit::model::ScriptedModel;

#[derive(Debug, Parser)]
#[command(
    name = "scripted-model",
    about = "A model on loopback that does what a script in the prompt says"
)]
struct Cli {
    /// Where to listen; 0 takes a free port
    #[arg(long, default_value_t = 0)]
    port: u16,
}

#[expect(clippy::print_stdout, reason = "whoever started it reads the port")]
fn main() -> Result<()> {
    let model = ScriptedModel::listen(Cli::parse().port, tell)?;
    println!("listening on 127.0.0.1:{}", model.port);
    model.serve();
    Ok(())
}

#[expect(clippy::print_stderr, reason = "each request is told of")]
fn tell(request: &str) {
    eprintln!("{request}");
}
