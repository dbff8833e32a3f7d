//! The cells of the terminal: what changed between two pictures is written, in one piece.
//!
//! Invariant: a picture that is the same as the one before writes nothing at all, so that a screen on which nothing
//! happens costs nothing on a slow line either.

use std::io::{self, BufWriter, Stdout};

use countersign_tui::draw::{DrawReport, draw};
use countersign_tui::model::Model;
use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// More than a picture of a large screen takes: without this, standard output writes pieces of 1 kB.
const WRITE_BYTES: usize = 256 * 1024;

pub(super) type StdoutBackend = CrosstermBackend<BufWriter<Stdout>>;

/// What the terminal shows.
#[derive(PartialEq, Eq)]
struct ShownPicture {
    cells: Buffer,
    cursor: Option<(u16, u16)>,
}

pub(super) struct ScreenCells<B: Backend> {
    terminal: Terminal<B>,
    /// Nothing until a picture was shown, and after another program had the terminal.
    shown: Option<ShownPicture>,
}

impl ScreenCells<StdoutBackend> {
    pub(super) fn open() -> io::Result<Self> {
        let out = BufWriter::with_capacity(WRITE_BYTES, io::stdout());
        Self::new(CrosstermBackend::new(out))
    }
}

impl<B: Backend> ScreenCells<B> {
    fn new(backend: B) -> Result<Self, B::Error> {
        Ok(Self {
            terminal: Terminal::new(backend)?,
            shown: None,
        })
    }

    /// Shows the picture of a model.
    pub(super) fn draw(&mut self, model: &Model) -> Result<DrawReport, B::Error> {
        let size_before = self.area();
        self.terminal.autoresize()?;
        if self.area() != size_before {
            self.shown = None;
        }
        let cells = self.terminal.current_buffer_mut();
        let report = draw(model, cells);
        let is_shown = self
            .shown
            .as_ref()
            .is_some_and(|shown| shown.cursor == report.cursor && shown.cells == *cells);
        if is_shown {
            // The next picture begins with empty cells, as it does after one that was written.
            cells.reset();
            return Ok(report);
        }
        self.shown = Some(ShownPicture {
            cells: cells.clone(),
            cursor: report.cursor,
        });
        let cursor = report.cursor.map(Position::from);
        self.terminal.apply_buffer_with_cursor(cursor)?;
        Ok(report)
    }

    /// Forgets what was shown: the next picture is written whole.
    pub(super) fn clear(&mut self) -> Result<(), B::Error> {
        self.shown = None;
        // Not `clear`, which asks the terminal where its cursor is: the thread of the keyboard would take the answer.
        let area = self.area();
        self.terminal.resize(area)
    }

    fn area(&mut self) -> Rect {
        self.terminal.get_frame().area()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use countersign_tui::message::{Message, Moment};
    use countersign_tui::update::update;
    use ratatui::backend::{ClearType, TestBackend, WindowSize};
    use ratatui::buffer::Cell;
    use ratatui::layout::Size;

    use super::super::settings;
    use super::*;

    /// Counts what would be written.
    struct CountingBackend {
        inner: TestBackend,
        writes: usize,
        cells: usize,
    }

    impl CountingBackend {
        fn count<T>(&mut self, result: T) -> T {
            self.writes += 1;
            result
        }
    }

    impl Backend for CountingBackend {
        type Error = Infallible;

        fn draw<'a, I>(&mut self, content: I) -> Result<(), Infallible>
        where
            I: Iterator<Item = (u16, u16, &'a Cell)>,
        {
            let mut cells = 0;
            let drawn = self.inner.draw(content.inspect(|_| cells += 1));
            self.cells += cells;
            self.count(drawn)
        }

        fn hide_cursor(&mut self) -> Result<(), Infallible> {
            let hidden = self.inner.hide_cursor();
            self.count(hidden)
        }

        fn show_cursor(&mut self) -> Result<(), Infallible> {
            let shown = self.inner.show_cursor();
            self.count(shown)
        }

        fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
            panic!("a terminal must not be asked: the answer would look like keys")
        }

        fn set_cursor_position<P: Into<Position>>(
            &mut self,
            position: P,
        ) -> Result<(), Infallible> {
            let set = self.inner.set_cursor_position(position);
            self.count(set)
        }

        fn clear(&mut self) -> Result<(), Infallible> {
            let cleared = self.inner.clear();
            self.count(cleared)
        }

        fn clear_region(&mut self, clear_type: ClearType) -> Result<(), Infallible> {
            let cleared = self.inner.clear_region(clear_type);
            self.count(cleared)
        }

        fn size(&self) -> Result<Size, Infallible> {
            self.inner.size()
        }

        fn window_size(&mut self) -> Result<WindowSize, Infallible> {
            self.inner.window_size()
        }

        fn flush(&mut self) -> Result<(), Infallible> {
            let flushed = self.inner.flush();
            self.count(flushed)
        }
    }

    const SIZE: (u16, u16) = (100, 30);

    fn open() -> (ScreenCells<CountingBackend>, Model) {
        let backend = CountingBackend {
            inner: TestBackend::new(SIZE.0, SIZE.1),
            writes: 0,
            cells: 0,
        };
        let mut screen = ScreenCells::new(backend).unwrap();
        let mut model = Model::new(settings::plain(), Moment::default());
        // Twice: panels are laid out by what was drawn before.
        for _ in 0..2 {
            show(&mut screen, &mut model);
        }
        (screen, model)
    }

    /// Draws as the loop does. Gives how often it wrote, and how many cells.
    fn show(screen: &mut ScreenCells<CountingBackend>, model: &mut Model) -> (usize, usize) {
        let before = counts(screen);
        let report = screen.draw(model).unwrap();
        let now = model.now;
        drop(update(model, Message::Drawn(report), now));
        let after = counts(screen);
        (after.0 - before.0, after.1 - before.1)
    }

    fn counts(screen: &ScreenCells<CountingBackend>) -> (usize, usize) {
        let backend = screen.terminal.backend();
        (backend.writes, backend.cells)
    }

    #[test]
    fn nothing_is_written_if_nothing_changed() {
        let (mut screen, mut model) = open();
        for second in 1..4 {
            let now = Moment {
                ms: second * 1_000,
                ..model.now
            };
            drop(update(&mut model, Message::Tick, now));
            assert_eq!(show(&mut screen, &mut model), (0, 0));
        }
    }

    #[test]
    fn a_change_is_written_alone_and_once() {
        let (mut screen, mut model) = open();
        let now = model.now;
        drop(update(&mut model, Message::Failed("changed".into()), now));
        let (writes, cells) = show(&mut screen, &mut model);
        assert!(writes > 0 && (1..200).contains(&cells), "{cells} cells");
        assert_eq!(show(&mut screen, &mut model), (0, 0));
        let shown = countersign_tui::draw::buffer_text(screen.terminal.backend().inner.buffer());
        assert!(shown.contains("changed"), "{shown}");
    }

    #[test]
    fn what_another_program_left_is_drawn_over_whole() {
        let (mut screen, mut model) = open();
        let before = screen.terminal.backend().inner.buffer().clone();
        screen.clear().unwrap();
        let (_, cells) = show(&mut screen, &mut model);
        assert!(cells > 0);
        assert_eq!(*screen.terminal.backend().inner.buffer(), before);
    }

    #[test]
    fn another_size_is_drawn_whole() {
        let (mut screen, mut model) = open();
        for size in [(60, 20), SIZE] {
            screen.terminal.backend_mut().inner.resize(size.0, size.1);
            show(&mut screen, &mut model);
            show(&mut screen, &mut model);
            let shown = screen.terminal.backend().inner.buffer().clone();
            let mut drawn = Buffer::empty(Rect::new(0, 0, size.0, size.1));
            draw(&model, &mut drawn);
            assert_eq!(shown, drawn);
        }
    }
}
