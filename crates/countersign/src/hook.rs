//! `hook claude`: what Claude Code runs before it uses a tool. Asks the host and prints what it says.
//!
//! Invariants: exactly one answer is printed, whatever happens, before the caller's patience ends; it
//! allows only if the host said so. Nothing is built here that a hook does not use: no command line,
//! no runtime.

mod claude;
mod link;
mod output;

use std::ffi::OsString;
use std::io::Read as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use countersign_core::limits::{HOOK_CALLER_MS, HOOK_INPUT_BYTES_MAX, HOOK_MARGIN_MS};
use countersign_protocol::HookEnd;

use crate::config::{HookConfig, HostConfig};
use crate::paths::HostPaths;

use link::{HookFailure, HookLink};
use output::{AnswerForm, HookAnswer};

/// What the caller's settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookArgs {
    /// The seconds after which the caller gives up on its hook.
    pub(crate) timeout: Option<u64>,
}

/// The words after `hook claude`, read without building the whole command line. Words that do not fit
/// are passed over: whoever wrote them still gets an answer. Only help is left to others.
pub(crate) fn arguments(mut given: impl Iterator<Item = OsString>) -> Option<HookArgs> {
    let is_hook = given.next()? == "hook" && given.next()? == "claude";
    let rest: Vec<OsString> = given.collect();
    if !is_hook || rest.iter().any(|word| word == "--help" || word == "-h") {
        return None;
    }
    // Whatever else stands there is ignored: settings that a newer version wrote get an answer as well,
    // and not a usage error.
    let after = rest.iter().skip_while(|word| *word != "--timeout").nth(1);
    let timeout = after.and_then(|word| word.to_str()?.parse().ok());
    Some(HookArgs { timeout })
}

/// How long to wait, and what to say after that.
struct HookTerms {
    limit: Duration,
    config: HookConfig,
}

impl HookTerms {
    fn load(args: &HookArgs, paths: Option<&HostPaths>) -> Self {
        // A file that cannot be read says nothing, and what holds then is the strict half of it.
        let config = paths.and_then(|paths| HostConfig::load(&paths.config).ok());
        let config = config.map(|config| config.hook).unwrap_or_default();
        let own = Duration::from_secs(config.limit_seconds.as_secs());
        let limit = own.min(caller_time_limit(args));
        Self { limit, config }
    }
}

/// What is left of the caller's time when the answer must be out.
fn caller_time_limit(args: &HookArgs) -> Duration {
    let given = args.timeout.map(|seconds| seconds.saturating_mul(1000));
    let given = given.unwrap_or(HOOK_CALLER_MS);
    // At most half of a short limit is kept back: with the whole margin gone there would be no time
    // left to ask anybody.
    Duration::from_millis(given - HOOK_MARGIN_MS.min(given / 2))
}

/// Answers one hook.
pub(crate) fn run(args: &HookArgs) -> ExitCode {
    let began = Instant::now();
    // The exit code of a panic is not one that blocks: Claude Code would continue as if the hook
    // had nothing to say.
    output::deny_on_panic();
    // First of all the watchdog, before anything that could hang.
    let first = began + caller_time_limit(args);
    if !output::answer_by(first, timeout_answer(HookEnd::Deny)) {
        let answer = HookAnswer::deny("countersign: could not start the watchdog thread");
        return output::give_answer(&answer);
    }
    let answer = answer(args, began).unwrap_or_else(|answer| answer);
    output::give_answer(&answer)
}

fn timeout_answer(end: HookEnd) -> HookAnswer {
    HookAnswer::on_end(end, "countersign: no answer in time")
}

/// Both sides are answers; the second one is what ends the attempt early.
fn answer(args: &HookArgs, began: Instant) -> Result<HookAnswer, HookAnswer> {
    let paths = HostPaths::from_environment();
    // If there can be no second watchdog, the first one still holds.
    let terms = HookTerms::load(args, paths.as_ref().ok());
    output::answer_by(began + terms.limit, timeout_answer(terms.config.on_timeout));
    let text = read_input().map_err(|why| HookAnswer::deny(&why))?;
    let event = claude::read_event(&text).map_err(|why| HookAnswer::deny(&why))?;
    // Up to here an answer could only be an exit code. From here on it can be JSON that the caller
    // reads.
    output::set_form(event.form());
    fail_on_purpose();
    let limit = match event.form() {
        // Nothing waits for a decision here, so a slow host must not hold up the session.
        AnswerForm::Plain => terms.limit.min(claude::PLAIN_LIMIT),
        AnswerForm::Unknown | AnswerForm::PreToolUse | AnswerForm::PermissionRequest => terms.limit,
    };
    let mut deadline = began + limit;
    if limit < terms.limit {
        output::answer_by(deadline, HookAnswer::none());
    }
    let asked = claude::hook_params(&text, &event, &terms.config)?;
    let Some(mut params) = asked else {
        return Ok(HookAnswer::none());
    };
    let mut without_host = terms.config.without_host;
    let mut on_timeout = terms.config.on_timeout;
    if claude::is_question(&params) {
        // It is answered in the terminal whatever becomes of telling the host, which only shows it.
        (without_host, on_timeout) = (HookEnd::Ask, HookEnd::Ask);
        deadline = began + terms.limit.min(claude::PLAIN_LIMIT);
        output::answer_by(deadline, timeout_answer(HookEnd::Ask));
    }
    // Whoever can write to the folder can put a socket there and answer for the host, so a folder that
    // is open to others counts as no host.
    let checked = paths.and_then(|paths| paths.check_runtime_dir().map(|()| paths));
    let paths = checked
        .map_err(|error| HookAnswer::on_end(without_host, &format!("countersign: {error}")))?;
    let link = HookLink::new(&paths.socket, deadline);
    let told = link.ask_host(&mut params);
    told.map(HookAnswer::from).map_err(|trouble| match trouble {
        HookFailure::Late => timeout_answer(on_timeout),
        HookFailure::Unjudged(why) => HookAnswer::on_end(without_host, &why),
    })
}

fn read_input() -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    // One byte more than the limit, so that input which is too large is not taken
    // for input that fits.
    let mut stdin = std::io::stdin().lock().take(HOOK_INPUT_BYTES_MAX + 1);
    let read = stdin.read_to_end(&mut text);
    read.map_err(|error| format!("countersign: could not read the hook input: {error}"))?;
    if text.len() as u64 > HOOK_INPUT_BYTES_MAX {
        return Err("countersign: the hook input is too large".to_owned());
    }
    Ok(text)
}

/// Tests need hooks that fail inside; nobody else does.
fn fail_on_purpose() {
    #[cfg(debug_assertions)]
    match std::env::var("COUNTERSIGN_HOOK_FAILS").as_deref() {
        Ok("panic") => panic!("told to"),
        Ok("hang") => loop {
            std::thread::park();
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_gives_is_read_and_whatever_else_is_passed_over() {
        let read = |line: &str| arguments(line.split(' ').map(OsString::from));
        let timeout = |timeout| Some(HookArgs { timeout });
        assert_eq!(read("hook claude"), timeout(None));
        assert_eq!(read("hook claude --timeout 615"), timeout(Some(615)));
        assert_eq!(read("hook claude --timeout x"), timeout(None));
        assert_eq!(read("hook claude --timeout"), timeout(None));
        assert_eq!(read("hook claude --new --timeout 9"), timeout(Some(9)));
        for other in [
            "hook claude --help",
            "hook",
            "hook install claude",
            "up",
            "hook claude -h",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn an_answer_is_out_before_the_callers_time_is_over() {
        let patience = |timeout| caller_time_limit(&HookArgs { timeout });
        assert_eq!(patience(None), Duration::from_secs(55));
        assert_eq!(patience(Some(615)), Duration::from_secs(610));
        assert_eq!(patience(Some(4)), Duration::from_secs(2));
        assert_eq!(patience(Some(0)), Duration::ZERO);
    }
}
