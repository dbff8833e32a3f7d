//! The scripted agent's asks for permission.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::script::{AskPlacement, OptionKind, ScriptedAsk, ScriptedTool};
use super::session::{ScriptSession, TurnFlow, tool_call};

impl ScriptSession {
    pub(super) async fn parallel(&self, asks: &[ScriptedAsk]) -> TurnFlow {
        let mut waits = Vec::new();
        for ask in asks {
            waits.push((ask, self.request_permission(ask).await));
        }
        for (ask, (id, response)) in waits {
            let response = response.await.unwrap_or_default();
            if let TurnFlow::End(answer) = self.answered(ask, &id, &response).await {
                return TurnFlow::End(answer);
            }
        }
        TurnFlow::Next
    }

    pub(super) async fn ask(&self, ask: &ScriptedAsk) -> TurnFlow {
        let (id, mut response) = self.request_permission(ask).await;
        let response = match ask.withdraw_after_ms {
            None => response.await,
            Some(ms) => {
                tokio::select! {
                    response = &mut response => response,
                    () = tokio::time::sleep(Duration::from_millis(ms)) => {
                        self.wire.notify("$/cancel_request", &json!({"requestId": id})).await;
                        // A request that was taken back is answered all the same.
                        response.await
                    }
                }
            }
        };
        self.answered(ask, &id, &response.unwrap_or_default()).await
    }

    pub(super) async fn request_permission(
        &self,
        ask: &ScriptedAsk,
    ) -> (Value, oneshot::Receiver<Value>) {
        let tool = &ask.tool;
        let empty = ScriptedTool {
            input: json!({}),
            title: "Tool".to_owned(),
            ..tool.clone()
        };
        match ask.placement {
            AskPlacement::Before => self.update(&tool_call(tool, "tool_call", "pending")).await,
            AskPlacement::Filled => {
                self.update(&tool_call(&empty, "tool_call", "pending"))
                    .await;
                self.update(&tool_call(tool, "tool_call_update", "pending"))
                    .await;
            }
            AskPlacement::InRequest | AskPlacement::After | AskPlacement::Never => {}
        }
        let mut call = match ask.placement {
            AskPlacement::InRequest => tool_call(tool, "", "pending"),
            _ => json!({"toolCallId": tool.call}),
        };
        if let Some(call) = call.as_object_mut() {
            call.remove("sessionUpdate");
        }
        let params = json!({
            "sessionId": self.session,
            "toolCall": call,
            "options": options(&ask.options),
        });
        let id = ask.id.clone().unwrap_or_else(|| self.wire.next_id());
        let response = self
            .wire
            .request(&id, "session/request_permission", &params)
            .await;
        if ask.placement == AskPlacement::After {
            self.update(&tool_call(tool, "tool_call", "pending")).await;
        }
        (id, response)
    }

    async fn answered(&self, ask: &ScriptedAsk, id: &Value, response: &Value) -> TurnFlow {
        let option = response.pointer("/result/outcome/optionId");
        let option = option.and_then(Value::as_str);
        if ask.echo {
            let outcome = &response["result"];
            self.say(&format!("{id} was answered: {outcome}")).await;
        }
        let (status, steps) = match option {
            Some(option) if option.starts_with("allow") => ("completed", &ask.on_allow),
            Some(_) => ("failed", &ask.on_deny),
            None => ("failed", &ask.on_cancel),
        };
        let flow = self.steps(steps).await;
        let status = ask.tool.ends.as_deref().unwrap_or(status);
        self.finish(&ask.tool, Some(status).filter(|status| *status != "never"))
            .await;
        flow
    }
}

fn options(kinds: &[OptionKind]) -> Vec<Value> {
    let polite = [OptionKind::AllowOnce, OptionKind::RejectOnce];
    let kinds = if kinds.is_empty() { &polite } else { kinds };
    let options = kinds.iter().map(|kind| {
        let (id, kind) = match kind {
            OptionKind::AllowOnce => ("allow", "allow_once"),
            OptionKind::AllowAlways => ("allow-always", "allow_always"),
            OptionKind::RejectOnce => ("reject", "reject_once"),
            OptionKind::RejectAlways => ("reject-always", "reject_always"),
        };
        json!({"optionId": id, "kind": kind, "name": id})
    });
    options.collect()
}
