//! One recipe for each agent: command, environment, configuration files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Cache, RealAgent, Recipe};

/// Where the system's programs are. Not what the test runs with: an agent that finds a tool there
/// behaves differently on every machine.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(super) fn prepare(
    agent: RealAgent,
    cache: &Cache,
    home: &Path,
    model_port: u16,
) -> io::Result<Recipe> {
    let model = format!("http://127.0.0.1:{model_port}");
    let (command, own) = match agent {
        RealAgent::Example => (
            vec![text(&cache.node()), text(&cache.example())],
            Vec::new(),
        ),
        RealAgent::Claude => claude(&[cache.node(), cache.claude()], &model),
        RealAgent::ClaudeCode => claude(&[cache.claude_code()], &model),
        RealAgent::Codex => codex(cache, home, &model)?,
        RealAgent::Defect => defect(cache, home, &model)?,
        RealAgent::Gemini => gemini(cache, home, &model)?,
        RealAgent::Opencode => opencode(cache, home, &model)?,
    };
    let mut env = common(home);
    env.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
    env.extend(own);
    Ok(Recipe { command, env })
}

type Parts = (Vec<String>, Vec<(String, String)>);

/// Every folder an agent might keep something in lies in its home.
fn common(home: &Path) -> Vec<(String, String)> {
    vec![
        pair("HOME", &text(home)),
        pair("PATH", SYSTEM_PATH),
        pair("XDG_CONFIG_HOME", &text(&home.join(".config"))),
        pair("XDG_DATA_HOME", &text(&home.join(".local/share"))),
        pair("XDG_STATE_HOME", &text(&home.join(".local/state"))),
        pair("XDG_CACHE_HOME", &text(&home.join(".cache"))),
    ]
}

fn claude(command: &[PathBuf], model: &str) -> Parts {
    let env = vec![
        pair("ANTHROPIC_BASE_URL", model),
        pair("ANTHROPIC_API_KEY", "sk-ant-mock"),
        pair("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        pair("DISABLE_AUTOUPDATER", "1"),
        pair("DISABLE_TELEMETRY", "1"),
    ];
    (command.iter().map(|word| text(word)).collect(), env)
}

fn codex(cache: &Cache, home: &Path, model: &str) -> io::Result<Parts> {
    let folder = home.join(".codex");
    // Its sandbox guards `.git` in every folder that may be written, and makes one where there is none:
    // in the machine's temporary folder that would stay, and make a repository of all below.
    let config = format!(
        r#"model = "gpt-5.4"
model_provider = "mock"
approval_policy = "untrusted"
sandbox_mode = "workspace-write"
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
[model_providers.mock]
name = "Mock"
base_url = "{model}/v1"
env_key = "MOCK_API_KEY"
wire_api = "responses"
"#
    );
    write(&folder.join("config.toml"), &config)?;
    let path = format!("{}:{SYSTEM_PATH}", text(&cache.bubblewrap()));
    // Codex makes no programs of its own where the temporary folder is, and wants some for its
    // sandbox. A test's home may well lie there, so the temporary folder is put elsewhere.
    let temporary = home.join("tmp");
    fs::create_dir_all(&temporary)?;
    let env = vec![
        pair("TMPDIR", &text(&temporary)),
        pair("CODEX_HOME", &text(&folder)),
        pair("MOCK_API_KEY", "mock"),
        pair("PATH", &path),
    ];
    Ok((vec![text(&cache.codex())], env))
}

fn defect(cache: &Cache, home: &Path, model: &str) -> io::Result<Parts> {
    let config = format!(
        r#"[default]
provider = "anthropic"
model = "mock-model"
[providers.anthropic]
base_url = "{model}"
api_key_env = "MOCK_KEY"
default_model = "mock-model"
models = ["mock-model"]
[sandbox]
mode = "ask-writes"
"#
    );
    write(&home.join(".config/defect/config.toml"), &config)?;
    let env = vec![pair("MOCK_KEY", "mock"), pair("RUST_LOG", "warn")];
    Ok((vec![text(&cache.defect())], env))
}

fn gemini(cache: &Cache, home: &Path, model: &str) -> io::Result<Parts> {
    // With a model of its own choice it would first ask a model which one to take.
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "model": {"name": "gemini-2.5-pro"},
        "telemetry": {"enabled": false},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"enableAutoUpdate": false},
    });
    write(&home.join(".gemini/settings.json"), &settings.to_string())?;
    let command = vec![
        text(&cache.node()),
        text(&cache.gemini()),
        "--acp".to_owned(),
    ];
    let env = vec![
        pair("GEMINI_API_KEY", "mock"),
        pair("GOOGLE_GEMINI_BASE_URL", model),
        // Without it servers of tools are dropped in silence.
        pair("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ];
    Ok((command, env))
}

fn opencode(cache: &Cache, home: &Path, model: &str) -> io::Result<Parts> {
    let provider = json!({
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": format!("{model}/v1"), "apiKey": "mock"},
        "models": {"mock-model": {"tool_call": true}},
    });
    let config = json!({
        "provider": {"mock": provider},
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "enabled_providers": ["mock"],
        "autoupdate": false,
        "share": "disabled",
        "permission": {"edit": "ask", "bash": "ask", "webfetch": "ask"},
    });
    write(
        &home.join(".config/opencode/opencode.json"),
        &config.to_string(),
    )?;
    // It makes this file where it keeps its settings, which it cannot in a sandbox, and then does not start.
    write(&home.join(".config/opencode/.gitignore"), "node_modules\n")?;
    let off = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    ];
    let env = off.map(|name| pair(name, "1")).into();
    Ok((vec![text(&cache.opencode()), "acp".to_owned()], env))
}

fn write(path: &Path, content: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::prepare;
    use crate::real::{Cache, RealAgent};

    #[test]
    fn a_recipe_points_at_the_cache_the_home_and_the_model() {
        let home = tempfile::tempdir().expect("a folder");
        let cache = Cache(PathBuf::from("/cache"));
        let recipe = prepare(RealAgent::Defect, &cache, home.path(), 4711).expect("a recipe");
        assert_eq!(recipe.command, ["/cache/defect/bin/defect"]);
        let config = home.path().join(".config/defect/config.toml");
        let config = std::fs::read_to_string(config).expect("a file");
        assert!(
            config.contains("base_url = \"http://127.0.0.1:4711\""),
            "{config}"
        );
    }

    #[test]
    fn the_path_is_given_once_and_holds_the_sandbox() {
        let home = tempfile::tempdir().expect("a folder");
        let cache = Cache(PathBuf::from("/cache"));
        let recipe = prepare(RealAgent::Codex, &cache, home.path(), 1).expect("a recipe");
        let paths = recipe.env.iter().filter(|(name, _)| name == "PATH");
        let paths: Vec<&str> = paths.map(|(_, value)| value.as_str()).collect();
        assert_eq!(
            paths,
            ["/cache/bubblewrap/usr/bin:/usr/local/bin:/usr/bin:/bin"]
        );
    }
}
