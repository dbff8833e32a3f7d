//! The scripted agent as a program of its own, for tests.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments = std::env::args().skip(1);
    let code = countersign_agents::scripted::run_with_arguments(arguments).await;
    // A read of standard input cannot be stopped, so the runtime would not end by itself.
    std::process::exit(code.into());
}
