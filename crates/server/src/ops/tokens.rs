//! Operations on tokens.

use std::time::Duration;

use countersign_core::limits::TOKEN_TTL_MS_DEFAULT;
use countersign_core::{AccessToken, AgentId, Caller, Role, TokenId};
use countersign_daemon::{Service, new_agent_id};
use countersign_protocol as wire;
use countersign_protocol::{HostRole, Reason};

use super::Result;
use crate::api_error::ApiError;

/// A new token. Only its hash is stored, so the secret is shown this once.
pub(crate) struct CreatedToken {
    pub(crate) secret: String,
    pub(crate) token: AccessToken,
}

/// Makes a token that expires.
pub(crate) async fn create(
    service: &Service,
    caller: Caller,
    params: wire::CreateTokenParams,
) -> Result<CreatedToken> {
    let role = token_role(params.role, params.agent_id)?;
    let ttl = Duration::from_millis(params.ttl_ms.unwrap_or(TOKEN_TTL_MS_DEFAULT));
    make(service, caller, role, params.name, Some(ttl)).await
}

/// Makes a token that never expires: only for the host's own user on the Unix socket.
pub(crate) async fn create_endless(
    service: &Service,
    caller: Caller,
    params: wire::CreateEndlessTokenParams,
) -> Result<CreatedToken> {
    caller.require_operator()?;
    // The authenticator gives such a key only to a caller that the kernel identified on the socket.
    // A token does not count: whoever stole one for an hour would have access for ever.
    if !caller.principal.key.as_str().starts_with("uid:") {
        return Err(ApiError::refused(
            Reason::InvalidParams,
            "a token that never expires can be created only with `countersign token create --expires never` on the host's own machine, without a token",
        ));
    }
    let role = token_role(params.role, params.agent_id)?;
    make(service, caller, role, params.name, None).await
}

fn token_role(role: HostRole, agent_id: Option<String>) -> Result<Role> {
    match (role, agent_id) {
        (HostRole::Operator, None) => Ok(Role::Operator),
        (HostRole::Observer, None) => Ok(Role::Observer),
        (HostRole::Agent, agent) => Ok(Role::Agent(agent.map_or_else(new_agent_id, AgentId::new))),
        (HostRole::Operator | HostRole::Observer, Some(_)) => Err(ApiError::plain(
            Reason::InvalidParams,
            "only a token for the role `agent` names an agent",
        )),
        (HostRole::Host | HostRole::Unknown, _) => Err(ApiError::plain(
            Reason::InvalidParams,
            "a token cannot have this role, expected operator, observer or agent",
        )),
    }
}

async fn make(
    service: &Service,
    caller: Caller,
    role: Role,
    name: Option<String>,
    ttl: Option<Duration>,
) -> Result<CreatedToken> {
    let name = name.unwrap_or_else(|| match &role {
        Role::Agent(agent) => agent.to_string(),
        Role::Operator | Role::Observer | Role::Host => caller.principal.name.to_string(),
    });
    let (secret, token) = service.create_token(caller, role, name, ttl).await?;
    Ok(CreatedToken { secret, token })
}

pub(crate) async fn list(service: &Service, caller: &Caller) -> Result<Vec<AccessToken>> {
    caller.require_operator()?;
    Ok(service.tokens(caller).await?)
}

pub(crate) async fn revoke(service: &Service, caller: Caller, id: String) -> Result<()> {
    Ok(service.revoke_token(caller, TokenId::new(id)).await?)
}
