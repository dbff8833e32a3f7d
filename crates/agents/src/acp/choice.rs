//! What can be chosen in a session: its mode and its model.
//!
//! Invariant: a choice the agent does not offer is never sent; it becomes a warning or a refusal.

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as METHODS, AvailableCommandInput, AvailableCommandsUpdate,
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption,
    SessionConfigSelectOptions, SessionModeState,
};
use countersign_core::event::{AgentOffers, OfferedChoice, OfferedCommand};
use countersign_core::limits::{AGENT_CHOICES_MAX, WORD_BYTES_MAX};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::envelope::{self, AcpError};
use super::handshake::{self, SessionInfo};
use super::state::{AcpPhase, AcpState, ChoiceStage, SentRequest, SessionChoice};
use crate::adapter::{AdapterOutput, AgentReport, AgentWrite, CommandError};

/// Takes in what an open session lets be chosen, and gives it for people.
pub(super) fn read_choices(
    state: &mut AcpState,
    modes: Option<Value>,
    models: Option<Value>,
    options: Option<Vec<Value>>,
) -> AgentOffers {
    let mut offers = AgentOffers::default();
    // Options first, because modes in a field of their own win over an option that lists them too.
    for option in options.into_iter().flatten() {
        if let Ok(option) = serde_json::from_value(option) {
            read_option(state, &mut offers, option);
        }
    }
    let modes: Option<SessionModeState> =
        modes.and_then(|modes| serde_json::from_value(modes).ok());
    if let Some(modes) = modes {
        let all = modes.available_modes.iter().take(AGENT_CHOICES_MAX);
        let listed: Vec<_> = all
            .map(|mode| offered(&mode.id.0, &mode.name, mode.description.as_deref()))
            .collect();
        state.modes = SessionChoice {
            option: None,
            values: ids(&listed),
            current: Some(word(&modes.current_mode_id.0)),
        };
        offers.modes = Some(listed);
    }
    // Models had a list of their own before they became an option of the session.
    if let Some(models) = models.filter(|_| state.models.option.is_none()) {
        let all = models.get("availableModels").and_then(Value::as_array);
        let all = all.into_iter().flatten().take(AGENT_CHOICES_MAX);
        let current = models.get("currentModelId").and_then(Value::as_str);
        let listed: Vec<_> = all.filter_map(model_row).collect();
        state.models = SessionChoice {
            option: None,
            values: ids(&listed),
            current: current.map(word),
        };
        offers.models = Some(listed);
    }
    offers
}

fn model_row(model: &Value) -> Option<OfferedChoice> {
    let id = model.get("modelId")?.as_str()?;
    let name = model.get("name").and_then(Value::as_str);
    let description = model.get("description").and_then(Value::as_str);
    Some(offered(id, name.unwrap_or(id), description))
}

fn offered(id: &str, name: &str, description: Option<&str>) -> OfferedChoice {
    OfferedChoice {
        id: word(id),
        name: word(name),
        description: description.map(word),
    }
}

fn ids(choices: &[OfferedChoice]) -> Vec<String> {
    choices.iter().map(|choice| choice.id.clone()).collect()
}

/// One longer than a word is nothing that a person could choose.
fn word(text: &str) -> String {
    envelope::truncate(text, WORD_BYTES_MAX)
}

fn read_option(state: &mut AcpState, offers: &mut AgentOffers, option: SessionConfigOption) {
    let SessionConfigKind::Select(select) = option.kind else {
        return;
    };
    let listed: Vec<SessionConfigSelectOption> = match select.options {
        SessionConfigSelectOptions::Ungrouped(all) => all,
        SessionConfigSelectOptions::Grouped(groups) => {
            let all = groups.into_iter().flat_map(|group| group.options);
            all.collect()
        }
        _ => return,
    };
    let listed: Vec<OfferedChoice> = listed
        .iter()
        .take(AGENT_CHOICES_MAX)
        .map(|one| offered(&one.value.0, &one.name, one.description.as_deref()))
        .collect();
    let choice = SessionChoice {
        option: Some(option.id.0.to_string()),
        values: ids(&listed),
        current: Some(word(&select.current_value.0)),
    };
    match option.category {
        Some(SessionConfigOptionCategory::Mode) => {
            state.modes = choice;
            offers.modes = Some(listed);
        }
        Some(SessionConfigOptionCategory::Model) => {
            state.models = choice;
            offers.models = Some(listed);
        }
        _ => {}
    }
}

/// Sets the mode and model that were asked for, or warns. Gives what is to be written, which may be
/// nothing.
pub(super) fn configure(state: &mut AcpState) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mode) = state.opening.mode.take() {
        match set_mode_line(state, &mode, ChoiceStage::Opening) {
            Ok(line) => bytes.extend(line.unwrap_or_default()),
            Err(reason) => state.warnings.push(reason),
        }
    }
    if let Some(model) = state.opening.model.take() {
        match set_model_line(state, &model, ChoiceStage::Opening) {
            Ok(line) => bytes.extend(line.unwrap_or_default()),
            Err(reason) => state.warnings.push(reason),
        }
    }
    bytes
}

/// Nothing if the session is in that mode already.
fn set_mode_line(
    state: &mut AcpState,
    mode: &str,
    stage: ChoiceStage,
) -> Result<Option<Vec<u8>>, String> {
    let modes = &state.modes;
    if modes.current.as_deref() == Some(mode) {
        return Ok(None);
    }
    // An agent that lists none may have some all the same; it will say so.
    if !modes.values.is_empty() {
        check(modes, "mode", mode)?;
    }
    let option = modes.option.clone();
    let id = state.record_sent(SentRequest::SetMode {
        mode: mode.to_owned(),
        stage,
    });
    let method = METHODS.session_set_mode;
    Ok(Some(set_line(state, id, option, method, "modeId", mode)))
}

fn set_model_line(
    state: &mut AcpState,
    model: &str,
    stage: ChoiceStage,
) -> Result<Option<Vec<u8>>, String> {
    let models = &state.models;
    if models.current.as_deref() == Some(model) {
        return Ok(None);
    }
    // Its list is the only sign that the agent lets one be chosen.
    if models.values.is_empty() {
        return Err("the agent does not let its model be chosen".to_owned());
    }
    check(models, "model", model)?;
    let option = models.option.clone();
    let id = state.record_sent(SentRequest::SetModel {
        model: model.to_owned(),
        stage,
    });
    let method = "session/set_model";
    Ok(Some(set_line(state, id, option, method, "modelId", model)))
}

fn check(choice: &SessionChoice, what: &str, value: &str) -> Result<(), String> {
    if choice.values.iter().any(|one| one == value) {
        return Ok(());
    }
    let all = choice.values.join(", ");
    Err(format!("the agent has no {what} `{value}`; it has {all}"))
}

/// By the option if it is one, else by a method of its own.
fn set_line(
    state: &AcpState,
    id: u64,
    option: Option<String>,
    method: &str,
    field: &str,
    value: &str,
) -> Vec<u8> {
    let session = &state.session;
    if let Some(option) = option {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        envelope::request(id, METHODS.session_set_config_option, &params)
    } else {
        envelope::request(id, method, &json!({"sessionId": session, field: value}))
    }
}

pub(super) fn set_mode(
    state: &mut AcpState,
    revision: u32,
    mode: &str,
) -> Result<Vec<AgentWrite>, CommandError> {
    if state.phase != AcpPhase::Open {
        return Err(CommandError::NotReady);
    }
    let bytes = set_mode_line(state, mode, ChoiceStage::Revision(revision));
    let bytes = bytes.map_err(CommandError::Unsupported)?;
    let line = bytes.map(|bytes| AgentWrite::own("mode", revision, bytes));
    Ok(line.into_iter().collect())
}

pub(super) fn set_model(
    state: &mut AcpState,
    revision: u32,
    model: &str,
) -> Result<Vec<AgentWrite>, CommandError> {
    if state.phase != AcpPhase::Open {
        return Err(CommandError::NotReady);
    }
    let bytes = set_model_line(state, model, ChoiceStage::Revision(revision));
    let bytes = bytes.map_err(CommandError::Unsupported)?;
    let line = bytes.map(|bytes| AgentWrite::own("model", revision, bytes));
    Ok(line.into_iter().collect())
}

pub(super) fn handle_mode_response(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    mode: String,
    outcome: Result<&RawValue, AcpError>,
) {
    match outcome {
        Ok(result) => {
            reread_options(state, result);
            state.modes.current = Some(mode.clone());
            let report = AgentReport {
                mode: Some(mode),
                ..AgentReport::default()
            };
            output.report(report);
        }
        Err(failure) => warn(state, output, "mode", &mode, &failure),
    }
    handshake::finish_if_configured(state, output);
}

pub(super) fn handle_model_response(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    model: String,
    outcome: Result<&RawValue, AcpError>,
) {
    match outcome {
        Ok(result) => {
            reread_options(state, result);
            state.models.current = Some(model.clone());
            let report = AgentReport {
                model: Some(model),
                ..AgentReport::default()
            };
            output.report(report);
        }
        Err(failure) => warn(state, output, "model", &model, &failure),
    }
    handshake::finish_if_configured(state, output);
}

fn warn(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    what: &str,
    wanted: &str,
    failure: &AcpError,
) {
    let reason = failure.describe();
    let text = format!("the agent did not take the {what} `{wanted}`: {reason}");
    if state.phase == AcpPhase::Configuring {
        state.warnings.push(text);
    } else {
        output.record_notice(text);
    }
}

fn reread_options(state: &mut AcpState, result: &RawValue) {
    let opened: SessionInfo = serde_json::from_str(result.get()).unwrap_or_default();
    // The lists are those of the session; a change of them comes as an update.
    drop(read_options(state, opened.config_options));
}

/// Options that came later. Modes that are set as such stay so.
fn read_options(state: &mut AcpState, options: Option<Vec<Value>>) -> AgentOffers {
    let modes = state.modes.clone();
    let mut offers = read_choices(state, None, None, options);
    // Modes that have a method of their own keep it, also if an option lists them too.
    if modes.option.is_none() && !modes.values.is_empty() {
        let current = state.modes.current.take();
        state.modes = SessionChoice { current, ..modes };
        offers.modes = None;
    }
    offers
}

/// `available_commands_update`.
pub(super) fn handle_commands_update(output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let update: AvailableCommandsUpdate = serde_json::from_str(update.get()).ok()?;
    let commands = update.available_commands.iter().take(AGENT_CHOICES_MAX);
    let commands = commands.map(|command| OfferedCommand {
        name: word(&command.name),
        description: word(&command.description),
        hint: command.input.as_ref().and_then(hint),
    });
    output.report(AgentReport {
        offers: AgentOffers {
            commands: Some(commands.collect()),
            ..AgentOffers::default()
        },
        ..AgentReport::default()
    });
    Some(())
}

fn hint(input: &AvailableCommandInput) -> Option<String> {
    match input {
        AvailableCommandInput::Unstructured(input) => Some(word(&input.hint)),
        _ => None,
    }
}

/// `config_option_update`.
pub(super) fn handle_options_update(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    update: &RawValue,
) -> Option<()> {
    let opened: SessionInfo = serde_json::from_str(update.get()).ok()?;
    let (mode, model) = (state.modes.current.clone(), state.models.current.clone());
    let offers = read_options(state, opened.config_options);
    let report = AgentReport {
        offers,
        mode: state
            .modes
            .current
            .clone()
            .filter(|_| state.modes.current != mode),
        model: state
            .models
            .current
            .clone()
            .filter(|_| state.models.current != model),
        ..AgentReport::default()
    };
    if report != AgentReport::default() {
        output.report(report);
    }
    Some(())
}
