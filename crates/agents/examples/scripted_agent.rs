//! The scripted agent as a program of its own, for tests.

#[tokio::main(flavor = "current_thread")]
#[expect(
    clippy::exit,
    reason = "a read of standard input cannot be stopped, so the runtime would not end"
)]
async fn main() {
    let arguments = std::env::args().skip(1);
    let code = countersign_agents::scripted::run_with_arguments(arguments).await;
    std::process::exit(code.into());
}
