//! On which other screens an ask or a question is open.

use countersign_protocol::{AskViewerRow, HostDoor};

use super::escape;

/// Where else this is open, in words; nothing if nowhere.
pub fn describe_viewers(viewers: &[AskViewerRow], subject: &str) -> Option<String> {
    let mut places: Vec<String> = viewers
        .iter()
        .filter(|viewer| viewer.subject == subject)
        .map(describe_place)
        .collect();
    places.dedup();
    (!places.is_empty()).then(|| format!("also open: {}", places.join(", ")))
}

fn describe_place(viewer: &AskViewerRow) -> String {
    let name = escape::line(&viewer.name);
    match (&viewer.device, viewer.door) {
        (Some(device), _) => format!("on {}", escape::line(device)),
        (None, Some(HostDoor::Web)) => format!("in a browser of {name}"),
        (None, Some(HostDoor::Socket)) => format!("in another terminal of {name}"),
        (None, _) => format!("on a screen of {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(subject: &str, device: Option<&str>, door: HostDoor) -> AskViewerRow {
        AskViewerRow {
            subject: subject.to_owned(),
            name: "root".to_owned(),
            device: device.map(str::to_owned),
            door: Some(door),
        }
    }

    #[test]
    fn a_screen_is_called_by_its_device_or_by_its_door() {
        let viewers = [
            viewer("a", Some("my\nphone"), HostDoor::Web),
            viewer("a", None, HostDoor::Socket),
            viewer("a", None, HostDoor::Socket),
            viewer("b", None, HostDoor::Web),
        ];
        assert_eq!(
            describe_viewers(&viewers, "a").as_deref(),
            Some("also open: on my\\nphone, in another terminal of root")
        );
        assert_eq!(
            describe_viewers(&viewers, "b").as_deref(),
            Some("also open: in a browser of root")
        );
        assert_eq!(describe_viewers(&viewers, "c"), None);
    }
}
