//! `token`: make, list and revoke.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use countersign_protocol::{
    CreateEndlessTokenParams, CreateTokenParams, HostRole, NewToken, NoParams, Time, TokenParams,
    TokenRow, method,
};

use super::CommonArgs;
use crate::client::{CallError, HostClient};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it on stdout; it is shown only once
    Create(CreateTokenArgs),
    /// List valid tokens, and the devices that are logged in to the web page
    #[command(after_help = "Examples:\n  countersign token list --json")]
    List,
    /// Revoke a token; its open connections end at once
    #[command(after_help = "Examples:\n  countersign token revoke token-1a2b3c4d")]
    Revoke {
        /// Id from `token list`
        id: String,
    },
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign token create --role operator --name ci
  COUNTERSIGN_TOKEN=$(countersign token create --role agent --agent builder --expires 8h) ./agent

A token that expires is valid for at most 90 days. One that never expires can be created only on the
host's own machine. Never give an operator token to an agent: whoever has it can answer asks.")]
pub(crate) struct CreateTokenArgs {
    /// What the token allows: operator answers asks, observer reads, agent asks
    #[arg(long)]
    role: TokenRole,
    /// Agent that uses the token
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Name to record for whoever uses the token
    #[arg(long, value_name = "WHO")]
    name: Option<String>,
    /// How long it is valid: 90s, 30m, 1h, at most 90d, or never
    #[arg(long, default_value = "1h", value_name = "TIME")]
    expires: TokenLifetime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenLifetime {
    Never,
    After(Duration),
}

impl std::str::FromStr for TokenLifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            Ok(Self::Never)
        } else {
            duration::parse(text).map(Self::After)
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum TokenRole {
    Operator,
    Observer,
    Agent,
}

impl TokenRole {
    fn on_wire(self) -> HostRole {
        match self {
            Self::Operator => HostRole::Operator,
            Self::Observer => HostRole::Observer,
            Self::Agent => HostRole::Agent,
        }
    }
}

pub(super) async fn token(common: &CommonArgs, command: TokenCommand) -> Result<CliExit, CliError> {
    match command {
        TokenCommand::Create(args) => create(common, args).await,
        TokenCommand::List => list(common).await,
        TokenCommand::Revoke { id } => revoke(common, id).await,
    }
}

async fn create(common: &CommonArgs, args: CreateTokenArgs) -> Result<CliExit, CliError> {
    if args.agent.is_some() && !matches!(args.role, TokenRole::Agent) {
        return Err(CliError::usage("--agent needs --role agent"));
    }
    let made = request_token(&mut common.connect().await?, args).await?;
    if made.row.expires_at.is_none() {
        // On stderr, like all but the token: `$(countersign token create …)` holds that and nothing
        // else.
        output::print_message(format_args!(
            "warning: this token never expires; revoke it with `countersign token revoke {}`",
            made.row.id
        ));
    }
    if common.json {
        output::print_json(&made)?;
        return Ok(CliExit::Ok);
    }
    output::print(&format!("{}\n", made.token))?;
    let ends = made
        .row
        .expires_at
        .map_or_else(|| "never".into(), |at| duration::until(duration::now(), at));
    let name = escape::line(&made.row.name);
    output::print_message(format_args!(
        "token {} for {} `{name}`, expires {ends}",
        made.row.id, made.row.role
    ));
    Ok(CliExit::Ok)
}

async fn request_token(
    client: &mut HostClient,
    args: CreateTokenArgs,
) -> Result<NewToken, CallError> {
    let role = args.role.on_wire();
    match args.expires {
        TokenLifetime::After(span) => {
            let params = CreateTokenParams {
                role,
                agent_id: args.agent,
                name: args.name,
                ttl_ms: Some(duration::millis(span)),
            };
            client.call::<method::CreateToken>(&params).await
        }
        TokenLifetime::Never => {
            let params = CreateEndlessTokenParams {
                role,
                agent_id: args.agent,
                name: args.name,
            };
            client.call::<method::CreateEndlessToken>(&params).await
        }
    }
}

async fn list(common: &CommonArgs) -> Result<CliExit, CliError> {
    let tokens = common.call::<method::Tokens>(&NoParams {}).await?;
    if common.json {
        output::print_json(&BTreeMap::from([("tokens", tokens)]))?;
    } else if tokens.is_empty() {
        output::print_message("no tokens");
    } else {
        output::print(&token_list(&tokens, duration::now(), output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

fn token_list(tokens: &[TokenRow], now: Time, width: usize) -> String {
    let rows = tokens.iter().map(|token| {
        let expires = token.expires_at.map(|at| duration::until(now, at));
        vec![
            token.id.clone(),
            token.role.to_string(),
            escape::line(token.agent_id.as_deref().unwrap_or("-")).into_owned(),
            duration::age(now, token.created_at),
            expires.unwrap_or_else(|| "never".into()),
            token
                .last_seen
                .map_or_else(|| "-".into(), |at| duration::age(now, at)),
            escape::line(token.device_name.as_deref().unwrap_or("-")).into_owned(),
            escape::line(&token.name).into_owned(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let heading = [
        "ID", "ROLE", "AGENT", "AGE", "EXPIRES", "SEEN", "DEVICE", "NAME",
    ];
    output::columns(&heading, &rows, width)
}

async fn revoke(common: &CommonArgs, token_id: String) -> Result<CliExit, CliError> {
    let params = TokenParams { token_id };
    common.call::<method::RevokeToken>(&params).await?;
    output::print_message(format_args!("revoked {}", params.token_id));
    Ok(CliExit::Ok)
}
