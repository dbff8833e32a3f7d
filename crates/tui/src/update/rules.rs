//! Listing, trying, writing and revoking rules.

use countersign_protocol::{
    AddRuleParams, BacktestRuleParams, CheckRulesParams, GrantRow, Raw, RemoveRuleParams,
    RulesParams, method,
};
use serde_json::json;

use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::{ConfirmPurpose, Model, Overlay};
use crate::render::escape;

use super::say;

/// The folder whose rules are listed: where the selected agent works, or where the screen was opened.
fn folder(model: &Model) -> Option<String> {
    let agent = model
        .selected_agent
        .as_ref()
        .and_then(|id| model.host.agents.get(id));
    let managed = agent.and_then(|agent| agent.managed.as_ref());
    managed
        .map(|managed| managed.cwd.clone())
        .or(model.folder.clone())
}

pub(super) fn read(model: &mut Model) -> Vec<Effect> {
    if !model.host.is_up() || !model.loading.insert("rules".to_owned()) {
        return Vec::new();
    }
    let params = RulesParams { cwd: folder(model) };
    vec![Effect::Call(HostCall::new::<method::Rules>(
        CallLane::Read,
        &params,
        ReplyTag::Rules,
    ))]
}

/// Reads the rules once they are on the screen.
pub(super) fn load_visible(model: &mut Model) -> Vec<Effect> {
    let is_shown = model
        .drawn
        .panels
        .iter()
        .any(|panel| panel.spec.kind == PanelKind::Rules);
    if is_shown && model.rules.is_none() {
        read(model)
    } else {
        Vec::new()
    }
}

pub(super) fn move_cursor(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let filter = model.view(&panel.id).filter.to_lowercase();
    let count = model.rules.as_ref().map_or(0, |found| {
        let grants = found
            .grants
            .iter()
            .filter(|grant| grant.rule.to_lowercase().contains(&filter));
        let files = found
            .files
            .iter()
            .filter(|rule| rule.rule.rule.to_lowercase().contains(&filter));
        grants.count() + files.count()
    });
    let view = model.view_mut(&panel.id);
    view.cursor = view
        .cursor
        .saturating_add_signed(steps)
        .min(count.saturating_sub(1));
    Vec::new()
}

/// The saved rule in the selected row.
fn selected_grant(model: &Model) -> Option<&GrantRow> {
    let panel = model.focused_panel();
    let view = model.view(&panel.id);
    let filter = view.filter.to_lowercase();
    let found = model.rules.as_ref()?;
    let mut grants = found
        .grants
        .iter()
        .filter(|grant| grant.rule.to_lowercase().contains(&filter));
    grants.nth(view.cursor)
}

pub(super) fn ask_to_remove(model: &mut Model) -> Vec<Effect> {
    let Some(grant) = selected_grant(model) else {
        return say(
            model,
            "only saved rules are revoked here; rules of files are changed in their file",
        );
    };
    let (id, rule) = (grant.id.clone(), escape::line(&grant.rule).into_owned());
    model.overlay = Some(Overlay::Confirm {
        question: format!("revoke {rule}?"),
        purpose: ConfirmPurpose::RemoveRule { id },
        asked_at: model.now.ms,
    });
    Vec::new()
}

pub(super) fn remove(id: &str) -> Vec<Effect> {
    let params = RemoveRuleParams { id: id.to_owned() };
    let call =
        HostCall::new::<method::RemoveRule>(CallLane::Decide, &params, ReplyTag::RuleRemoved);
    vec![Effect::Call(call)]
}

/// Asks what the rules say about a command.
pub(super) fn try_command(model: &mut Model, command: &str) -> Vec<Effect> {
    let input: Option<Raw> = serde_json::from_str(&json!({ "command": command }).to_string()).ok();
    let params = CheckRulesParams {
        tool: "Bash".to_owned(),
        input,
        cwd: folder(model),
        agent_id: model.selected_agent.clone(),
    };
    let tag = ReplyTag::RulesChecked {
        command: command.to_owned(),
    };
    vec![Effect::Call(HostCall::new::<method::CheckRules>(
        CallLane::Read,
        &params,
        tag,
    ))]
}

/// Shows what a rule would have done, before it is saved.
pub(super) fn test_rule(rule: &str) -> Vec<Effect> {
    let params = BacktestRuleParams {
        rule: rule.to_owned(),
        effect: None,
        limit: None,
    };
    let tag = ReplyTag::RuleTested {
        rule: rule.to_owned(),
    };
    vec![Effect::Call(HostCall::new::<method::BacktestRule>(
        CallLane::Read,
        &params,
        tag,
    ))]
}

/// Saves a rule for the project of the folder, for 30 days.
pub(super) fn add(model: &Model, rule: &str) -> Vec<Effect> {
    const MONTH_MS: u64 = 30 * 86_400_000;
    let params = AddRuleParams {
        rule: rule.to_owned(),
        project: folder(model),
        expires_in_ms: Some(MONTH_MS),
        ..AddRuleParams::default()
    };
    vec![Effect::Call(HostCall::new::<method::AddRule>(
        CallLane::Decide,
        &params,
        ReplyTag::RuleAdded,
    ))]
}
