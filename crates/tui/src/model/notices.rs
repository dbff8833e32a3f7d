//! What the screen said, newest last.

use std::collections::VecDeque;

use crate::escaped_text::EscapedText;

/// Notices that are kept to be read again.
const KEPT_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: EscapedText,
    pub at: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeLog {
    pub current: Option<EscapedText>,
    pub log: VecDeque<Notice>,
}

impl NoticeLog {
    /// Says something: words of ours with text that was escaped.
    pub fn say(&mut self, text: impl Into<String>, at: u64) {
        let text = EscapedText::shown(text.into().replace('\n', " "));
        self.current = Some(text.clone());
        self.log.push_back(Notice { text, at });
        while self.log.len() > KEPT_MAX {
            self.log.pop_front();
        }
    }

    pub fn clear(&mut self) {
        self.current = None;
    }
}
