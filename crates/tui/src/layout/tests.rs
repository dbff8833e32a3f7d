//! Files of layouts, and where their panels stand.

use ratatui::layout::Rect;

use super::*;

fn places(node: &LayoutNode, width: u16, height: u16, recent: &[&str]) -> Vec<(String, [u16; 4])> {
    let recent: Vec<String> = recent.iter().map(|id| (*id).to_owned()).collect();
    let solved = solve(node, Rect::new(0, 0, width, height), &recent);
    let panels = solved.panels.iter().map(|placed| {
        let Rect {
            x,
            y,
            width,
            height,
        } = placed.area;
        (placed.spec.id.clone(), [x, y, width, height])
    });
    panels.collect()
}

fn place(id: &str, area: [u16; 4]) -> (String, [u16; 4]) {
    (id.to_owned(), area)
}

#[test]
fn the_home_layout_has_four_panels_two_or_one() {
    let layouts = built_in_layouts();
    let home = &layouts[0].tabs[0];
    assert_eq!(
        places(home.tree(121), 121, 40, &[]),
        [
            place("inbox", [0, 0, 54, 20]),
            place("agents", [0, 20, 54, 20]),
            place("ask", [55, 0, 66, 24]),
            place("transcript", [55, 24, 66, 16]),
        ]
    );
    assert_eq!(
        places(home.tree(100), 100, 20, &["agents"]),
        [
            place("agents", [0, 0, 100, 7]),
            place("ask", [0, 7, 100, 13])
        ]
    );
    assert_eq!(
        places(home.tree(60), 60, 20, &["transcript", "inbox"]),
        [place("transcript", [0, 0, 60, 20])]
    );
}

const REVIEW: &str = r#"
[[tab]]
title = "Review"
root = { split = "right", parts = [
  { panel = "inbox", id = "in", size = "35%", min = 40 },
  { split = "down", parts = [
      { panel = "ask", id = "d", agent = "selected" },
      { stack = [ { panel = "transcript", id = "t", agent = "fix" }, { panel = "agents", id = "f", show = "for you" } ], size = 10 } ] } ] }
"#;

#[test]
fn a_layout_is_read_solved_and_written_back() {
    let layout = parse_layout("mine", REVIEW).unwrap();
    let tree = layout.tabs[0].tree(200);
    assert_eq!(
        places(tree, 201, 30, &["f"]),
        [
            place("in", [0, 0, 70, 30]),
            place("d", [71, 0, 130, 20]),
            place("f", [71, 20, 130, 10]),
        ]
    );
    // Without room for 40 columns everything shares one place.
    assert_eq!(places(tree, 90, 30, &["t"]), [place("t", [0, 0, 90, 30])]);
    let written = layout_toml(&layout);
    assert_eq!(parse_layout("mine", &written), Ok(layout));
    for layout in built_in_layouts() {
        assert_eq!(
            parse_layout(&layout.name, &layout_toml(&layout)),
            Ok(layout)
        );
    }
}

#[test]
fn a_mistake_is_named_by_its_path() {
    let wrong = |text: &str| parse_layout("mine", text).unwrap_err();
    assert_eq!(
        wrong(
            "[[tab]]\ntitle = \"x\"\nroot = { split = \"right\", parts = [{ panel = \"inbux\" }] }"
        ),
        "tab 1, root.parts[0]: `inbux` is not a panel; there are inbox, ask, agents, transcript, chat, feed, \
         history, rules, diff, usage, terminals, command, files, viewer, editor, tail, notes, \
         terminal, search"
    );
    assert_eq!(
        wrong(
            "[[tab]]\ntitle = \"x\"\nroot = { stack = [{ panel = \"ask\" }, { panel = \"ask\" }] }"
        ),
        "tab 1, root: two panels have the id `ask`"
    );
    assert_eq!(
        wrong(
            "[[tab]]\ntitle = \"x\"\nroot = { split = \"right\", parts = [{ panel = \"ask\", size = \"0%\" }] }"
        ),
        "tab 1, root.parts[0]: `0%` is not a size: use `30%`, a number of cells, or `fill`"
    );
    assert_eq!(wrong("tab = []"), "a layout has 1 to 20 tabs");
    assert!(wrong("[[tab]]\ntitel = 1\n").starts_with("line 2: unknown field `titel`"));
}
