//! The view of a run on a terminal: a thread of its own draws it and reads keys, so that nothing else waits for the terminal.

use std::{
    env,
    io::{self, BufWriter, Write as _, stderr},
    mem, panic,
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event},
        execute,
        style::ResetColor,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
    layout::Size,
};
use tokio::sync::mpsc::Sender;

use crate::tui::{About, Look, News, State, Wish, draw};

/// How long the thread waits for a key before it looks for news.
const LOOK: Duration = Duration::from_millis(100);
/// The view is drawn at most so often by itself.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// After a key it is drawn at most so often.
const DRAW_AFTER_KEY: Duration = Duration::from_millis(30);
/// How long whoever restores the screen waits for what is being drawn.
const FRAME: Duration = Duration::from_millis(300);
/// How long it may take to restore the screen: a terminal may take nothing any more.
const RESTORING: Duration = Duration::from_secs(1);
/// What a frame takes at most on a large terminal, so that it is written at once.
const FRAME_BYTES: usize = 1 << 16;

/// Whether the terminal shows the view.
static IS_UP: AtomicBool = AtomicBool::new(false);
/// Whoever draws holds this.
static DRAWING: Mutex<()> = Mutex::new(());

/// A view that is shown until it is finished.
#[derive(Debug)]
pub(super) struct Screen {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with the run.
#[derive(Debug, Default)]
struct Shared {
    news: Mutex<News>,
    is_over: AtomicBool,
}

impl Screen {
    /// Shows the view. What keys ask for goes to `wishes`.
    ///
    /// # Errors
    /// When the terminal cannot be had.
    pub(super) fn show(about: About, wishes: Sender<Wish>) -> io::Result<Self> {
        enter()?;
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        let thread = thread::Builder::new().name("screen".to_owned()).spawn(move || {
            // A terminal that is gone shows nothing, and the run goes on.
            let _ = Drawn::new(about, wishes).and_then(|drawn| drawn.draw_until_over(&its));
        });
        let thread = thread.inspect_err(|_| restore())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Has the view show this. It waits for nothing but another's look at the news.
    pub(super) fn tell(&self, tell: impl FnOnce(&mut News)) {
        tell(&mut locked(&self.shared.news));
    }

    /// Ends the view, and restores the screen.
    pub(super) fn finish(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // A terminal that takes nothing does not keep the run from its report.
            let began = Instant::now();
            while !thread.is_finished() && began.elapsed() < RESTORING {
                thread::sleep(Duration::from_millis(2));
            }
        }
        restore();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What the thread draws.
struct Drawn {
    terminal: Terminal<CrosstermBackend<BufWriter<io::Stderr>>>,
    state: State,
    look: Look,
    wishes: Sender<Wish>,
    frame_at: Option<Instant>,
    /// How large the terminal was at the last look.
    size: Size,
    /// Whether something is to be drawn that was not, and whether a key asked for it.
    is_changed: bool,
    is_pressed: bool,
}

impl Drawn {
    fn new(about: About, wishes: Sender<Wish>) -> io::Result<Self> {
        let backend = CrosstermBackend::new(BufWriter::with_capacity(FRAME_BYTES, stderr()));
        Ok(Self {
            terminal: Terminal::new(backend)?,
            state: State::new(about),
            look: look(),
            wishes,
            frame_at: None,
            size: Size::default(),
            is_changed: true,
            is_pressed: false,
        })
    }

    fn draw_until_over(mut self, shared: &Shared) -> io::Result<()> {
        while !shared.is_over.load(SeqCst) && IS_UP.load(SeqCst) {
            let news = mem::take(&mut *locked(&shared.news));
            self.is_changed |= self.state.take(news);
            self.is_changed |= self.state.tick(Instant::now());
            let size = self.terminal.size()?;
            if mem::replace(&mut self.size, size) != size {
                (self.is_changed, self.is_pressed) = (true, true);
            }
            self.draw_if_due()?;
            wait_for_input(Duration::ZERO)?;
            self.take_keys()?;
            // One that is held back is drawn soon.
            let wait = if self.is_pressed { DRAW_AFTER_KEY } else { LOOK };
            wait_for_input(wait)?;
            self.take_keys()?;
        }
        Ok(())
    }

    /// Takes in the keys that were pressed. The library is asked although there are none: of a change of the terminal's size and a key that
    /// it learns of at the same time, it takes in the first only.
    fn take_keys(&mut self) -> io::Result<()> {
        while event::poll(Duration::ZERO)? {
            self.take_in(&event::read()?)?;
        }
        Ok(())
    }

    fn take_in(&mut self, event: &Event) -> io::Result<()> {
        let Event::Key(key) = *event else { return Ok(()) };
        match self.state.press(key) {
            Some(Wish::Redraw) => self.terminal.clear()?,
            // Where nobody takes it the run has ended; where it does not fit many keys were pressed that ask for the same.
            Some(wish) => drop(self.wishes.try_send(wish)),
            None => {}
        }
        (self.is_changed, self.is_pressed) = (true, true);
        Ok(())
    }

    fn draw_if_due(&mut self) -> io::Result<()> {
        let every = if self.is_pressed { DRAW_AFTER_KEY } else { DRAW_EVERY };
        if !self.is_changed || self.frame_at.is_some_and(|at| at.elapsed() < every) {
            return Ok(());
        }
        let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        if !IS_UP.load(SeqCst) {
            return Ok(());
        }
        let Self { terminal, state, look, .. } = self;
        let mut lines = (0, 0);
        terminal.draw(|frame| lines = draw(state, frame.buffer_mut(), *look))?;
        state.drawn(lines);
        self.frame_at = Some(Instant::now());
        (self.is_changed, self.is_pressed) = (false, false);
        Ok(())
    }
}

/// Takes the terminal. Whatever ends the process, but a signal that nobody can take, gives it back.
fn enter() -> io::Result<()> {
    static RESTORES: Once = Once::new();
    RESTORES.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            restore();
            before(what);
        }));
    });
    enable_raw_mode()?;
    IS_UP.store(true, SeqCst);
    execute!(stderr(), EnterAlternateScreen).inspect_err(|_| restore())
}

/// Gives the terminal back as it was, if the view has it.
pub(super) fn restore() {
    if !IS_UP.swap(false, SeqCst) {
        return;
    }
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        // Whoever fails while it draws holds this for ever.
        let began = Instant::now();
        while DRAWING.try_lock().is_err() && began.elapsed() < FRAME {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), ResetColor, LeaveAlternateScreen, Show).and_then(|()| stderr().flush());
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(RESTORING);
}

/// Waits for a key, at most for so long. An error where the terminal is gone: the library reads from that for ever.
#[cfg(unix)]
fn wait_for_input(wait: Duration) -> io::Result<()> {
    use nix::{
        errno::Errno,
        poll::{PollFd, PollFlags, PollTimeout, poll},
    };
    use std::os::fd::AsFd as _;

    let keys = io::stdin();
    let mut looked_at = [PollFd::new(keys.as_fd(), PollFlags::POLLIN)];
    match poll(&mut looked_at, PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let seen = looked_at[0].revents().unwrap_or(PollFlags::empty());
    if seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

#[cfg(not(unix))]
fn wait_for_input(wait: Duration) -> io::Result<()> {
    event::poll(wait).map(drop)
}

/// What the terminal can show, as far as the environment says it.
fn look() -> Look {
    let term = env::var("TERM").unwrap_or_default();
    let wants = anstream::AutoStream::choice(&stderr()) != anstream::ColorChoice::Never;
    // The terminals of old, and those that are said to have one colour.
    let is_old = term.starts_with("vt");
    let is_mono = term.ends_with("-m") || term.ends_with("-mono");
    Look { has_colours: wants && !is_old && !is_mono, has_blocks: !is_old }
}

fn locked(news: &Mutex<News>) -> MutexGuard<'_, News> {
    news.lock().unwrap_or_else(PoisonError::into_inner)
}
