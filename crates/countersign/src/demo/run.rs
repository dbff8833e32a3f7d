//! `demo run`: the host, the agents and the screen, and all of it gone at the end.
//!
//! Invariant: the agents are started by the host through its own door, as any other agent is. This
//! process holds no agent's identity, so that the person here can decide.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_protocol::{
    AgentTarget, AgentsAtShutdown, CreateTicketParams, EnvVariable, HostStatus, NoParams,
    PromptBody, SpawnAgentParams, WorktreeParams, method,
};

use super::project;
use super::script::DemoScript;
use crate::cli::{detach, shutdown};
use crate::client::{HostClient, HostEndpoint};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::{self, HostPaths};
use crate::random_id::random_id;
use crate::{output, watch};

#[derive(Args)]
pub(crate) struct DemoRunArgs {
    /// Use this folder and keep it, instead of a scratch folder that goes at the end
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Where the demo's host listens; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

struct DemoRun {
    home: PathBuf,
    /// Whether the folder was made here, and goes at the end.
    scratch: bool,
    endpoint: HostEndpoint,
}

pub(super) async fn run(args: DemoRunArgs) -> Result<CliExit, CliError> {
    let scratch = args.home.is_none();
    let home = match args.home {
        Some(home) => {
            std::path::absolute(&home).map_err(|source| CliError::io("no such folder", source))?
        }
        // Nobody can guess the name, and so nobody can have made the folder before: /tmp is shared.
        None => std::env::temp_dir().join(format!("countersign-demo-{}", &random_id()?[..12])),
    };
    paths::make_private_folder(&home)?;
    let paths = HostPaths::in_home(&home, paths::current_uid());
    let demo = DemoRun {
        home,
        scratch,
        endpoint: HostEndpoint::local(&paths.socket),
    };
    let outcome = demo.run_until_quit(&paths, args.listen).await;
    let ended = demo.end().await;
    // Ended before either error is reported: a demo that failed must not leave its host behind.
    outcome?;
    ended?;
    Ok(CliExit::Ok)
}

/// A link to the web page, if this build has one.
async fn login_link(
    client: &mut HostClient,
    status: &HostStatus,
) -> Result<Option<String>, CliError> {
    if !status.web.as_ref().is_some_and(|web| web.built) {
        return Ok(None);
    }
    let params = CreateTicketParams::default();
    let ticket = client.call::<method::CreateTicket>(&params).await?;
    Ok(Some(ticket.url))
}

impl DemoRun {
    async fn run_until_quit(&self, paths: &HostPaths, listen: SocketAddr) -> Result<(), CliError> {
        paths.prepare()?;
        let arguments = ["--listen".to_owned(), listen.to_string()];
        let status = detach::start_detached(paths, &arguments, Some(&self.home)).await?;
        let mut client = HostClient::connect(&self.endpoint).await?;
        self.start_agents(&mut client).await?;
        let link = login_link(&mut client, &status).await?;
        drop(client);
        self.explain(&status, link.as_deref());
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            let browser = link.map(|link| format!("In a browser, within two minutes: {link}  "));
            let note = format!(
                "{}Three scripted agents in a scratch repository. Elsewhere: export COUNTERSIGN_HOME={}",
                browser.unwrap_or_default(),
                self.home.display()
            );
            watch::watch(&self.endpoint, &note).await?;
            return Ok(());
        }
        shutdown::interruption()?.await;
        Ok(())
    }

    /// Agents that a kept folder already has are told to begin again.
    async fn start_agents(&self, client: &mut HostClient) -> Result<(), CliError> {
        let (folder, has_git) = project::create_project(&self.home)?;
        paths::make_private_folder(&self.home.join("sessions"))?;
        let known = client.call::<method::Agents>(&NoParams {}).await?;
        for script in DemoScript::ALL {
            let old = known.iter().find(|agent| agent.name == script.name());
            if let Some(agent) = old {
                let body = PromptBody {
                    message: script.prompt().into(),
                    attachments: Vec::new(),
                };
                let agent_id = agent.id.clone();
                let params = AgentTarget { agent_id, body };
                client.call::<method::PromptAgent>(&params).await?;
            } else {
                let params = self.spawn_params(script, &folder, has_git)?;
                client.call::<method::SpawnAgent>(&params).await?;
            }
        }
        Ok(())
    }

    fn spawn_params(
        &self,
        script: DemoScript,
        folder: &Path,
        has_git: bool,
    ) -> Result<SpawnAgentParams, CliError> {
        let program = std::env::current_exe()
            .map_err(|source| CliError::io("could not find this program", source))?;
        let arguments = ["demo", "agent", script.word()].map(str::to_owned);
        let program = program.display().to_string();
        Ok(SpawnAgentParams {
            name: Some(script.name().into()),
            command: std::iter::once(program).chain(arguments).collect(),
            prompt: Some(script.prompt().into()),
            cwd: folder.display().to_string(),
            env: vec![EnvVariable {
                name: "SCRIPTED_AGENT_STATE".into(),
                value: Some(self.home.join("sessions").display().to_string()),
                secret: false,
            }],
            worktree: has_git.then(WorktreeParams::default),
            // Their sessions are kept in the scratch home, which a sandbox hides.
            sandbox: Some("open".into()),
            ..SpawnAgentParams::default()
        })
    }

    fn explain(&self, status: &HostStatus, link: Option<&str>) {
        let home = self.home.display();
        if let Some(link) = link {
            output::print_message(format_args!(
                "In a browser, within two minutes (afterwards: countersign open):\n\n  {link}\n"
            ));
        }
        output::print_message(format_args!(
            "A host and three scripted agents are running. What you allow happens, in worktrees of a\n\
             scratch repository. The host is at {}. In another terminal:\n\n  \
             export COUNTERSIGN_HOME={home}\n  \
             countersign ls\n  countersign inbox\n  countersign show ID\n  countersign approve ID\n  \
             countersign logs -f builder\n  countersign diff builder\n  \
             countersign send builder 'once more'\n\n\
             Ctrl-C ends the demo{}.",
            detach::web_address(status),
            if self.scratch {
                ", and the folder with it"
            } else {
                ""
            }
        ));
    }

    /// The agents end first, and the host with them.
    async fn end(self) -> Result<(), CliError> {
        match shutdown::end_host(&self.endpoint, AgentsAtShutdown::End).await {
            Err(CliError::NoHost { .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
        if self.scratch {
            std::fs::remove_dir_all(&self.home)
                .map_err(|source| CliError::file("remove", &self.home, source))?;
        }
        Ok(())
    }
}
