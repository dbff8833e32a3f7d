//! What the service runs, as a systemd unit and as a launchd property list.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::error::CliError;
use crate::paths::HostPaths;

/// By which a file is recognised as ours.
pub(super) const MARKER: &str = "Written by `countersign service install`.";

/// The name of the unit, and the label for launchd.
pub(super) const UNIT: &str = "countersign.service";
pub(super) const LABEL: &str = "countersign.host";

/// Variables that decide where the host keeps its files and which agents it finds. No others are
/// copied: a shell's environment may hold secrets, and the file is not secret.
const COPIED_VARIABLES: [&str; 4] = [
    "PATH",
    "COUNTERSIGN_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceDefinition {
    pub(super) program: String,
    pub(super) environment: Vec<(&'static str, String)>,
    /// Where launchd puts the host's log; systemd has its journal.
    pub(super) log: PathBuf,
}

impl ServiceDefinition {
    pub(super) fn from_environment(paths: &HostPaths) -> Result<Self, CliError> {
        let program = std::env::current_exe()
            .map_err(|source| CliError::io("could not find this program", source))?;
        let program = program.into_os_string().into_string().map_err(|program| {
            CliError::usage(format!(
                "the path of this program is not UTF-8: `{}`",
                program.display()
            ))
        })?;
        let environment = COPIED_VARIABLES
            .into_iter()
            .filter_map(|name| Some((name, std::env::var(name).ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Ok(Self {
            program,
            environment,
            log: paths.log.clone(),
        })
    }

    /// `KillMode=process`, because agents outlive the host: by default systemd would end them with it.
    /// `Delegate`, because agents are held in control groups of their own.
    pub(super) fn systemd_unit(&self) -> String {
        let mut text = format!(
            "# {MARKER}\n\
             [Unit]\n\
             Description=Countersign host\n\
             Documentation=man:countersign(1)\n\
             \n\
             [Service]\n\
             ExecStart={} up\n",
            systemd_quoted(&self.program).replace('$', "$$")
        );
        for (name, value) in &self.environment {
            let _ = writeln!(
                text,
                "Environment={}",
                systemd_quoted(&format!("{name}={value}"))
            );
        }
        text.push_str(
            "KillMode=process\n\
             Delegate=yes\n\
             Restart=on-failure\n\
             RestartSec=2\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
        );
        text
    }

    /// `AbandonProcessGroup`, because agents outlive the host: by default launchd would end them with it.
    pub(super) fn launchd_plist(&self) -> String {
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <!-- {MARKER} -->\n\
             <plist version=\"1.0\">\n\
             <dict>\n\
             \x20 <key>Label</key><string>{LABEL}</string>\n\
             \x20 <key>ProgramArguments</key>\n\
             \x20 <array><string>{}</string><string>up</string></array>\n\
             \x20 <key>EnvironmentVariables</key>\n\
             \x20 <dict>\n",
            xml_escaped(&self.program)
        );
        for (name, value) in &self.environment {
            let _ = writeln!(
                text,
                "    <key>{name}</key><string>{}</string>",
                xml_escaped(value)
            );
        }
        let _ = write!(
            text,
            "  </dict>\n\
             \x20 <key>RunAtLoad</key><true/>\n\
             \x20 <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n\
             \x20 <key>AbandonProcessGroup</key><true/>\n\
             \x20 <key>StandardErrorPath</key><string>{}</string>\n\
             </dict>\n\
             </plist>\n",
            xml_escaped(&self.log.to_string_lossy())
        );
        text
    }
}

/// One word of a unit file. `%` begins a specifier even inside quotes.
fn systemd_quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '%' => quoted.push_str("%%"),
            '\n' => quoted.push_str("\\n"),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn xml_escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> ServiceDefinition {
        ServiceDefinition {
            program: "/opt/a \"b\" 100%/$x/countersign".into(),
            environment: vec![("PATH", "/bin:/a&b".into())],
            log: "/home/u/host.log".into(),
        }
    }

    #[test]
    fn a_unit_quotes_what_systemd_would_interpret_and_spares_agents() {
        assert_eq!(
            definition().systemd_unit(),
            "# Written by `countersign service install`.\n\
             [Unit]\n\
             Description=Countersign host\n\
             Documentation=man:countersign(1)\n\
             \n\
             [Service]\n\
             ExecStart=\"/opt/a \\\"b\\\" 100%%/$$x/countersign\" up\n\
             Environment=\"PATH=/bin:/a&b\"\n\
             KillMode=process\n\
             Delegate=yes\n\
             Restart=on-failure\n\
             RestartSec=2\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n"
        );
    }

    #[test]
    fn a_property_list_escapes_xml_and_spares_agents() {
        assert_eq!(
            definition().launchd_plist(),
            r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by `countersign service install`. -->
<plist version="1.0">
<dict>
  <key>Label</key><string>countersign.host</string>
  <key>ProgramArguments</key>
  <array><string>/opt/a "b" 100%/$x/countersign</string><string>up</string></array>
  <key>EnvironmentVariables</key>
  <dict>
    <key>PATH</key><string>/bin:/a&amp;b</string>
  </dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>AbandonProcessGroup</key><true/>
  <key>StandardErrorPath</key><string>/home/u/host.log</string>
</dict>
</plist>
"#
        );
    }
}
