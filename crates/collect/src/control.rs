//! The channel through which a running collection is steered: by `fathom command`, or by the program itself.
//!
//! What for: a Unix socket in a directory that only this user may enter. A request is one line, the answer some lines,
//! then the connection ends:
//!
//! ```text
//!   pause | resume | mark NAME | mark-at NANOSECONDS NAME | status
//!   ok TEXT        done; `status` adds lines `KEY VALUE`
//!   no TEXT        not done, and why
//! ```
//!
//! What not: what a pause is (`session::paused`), how `fathom command` chooses a collection (`cli`). Assumption: whoever
//! enters the directory is this user or root, whom the kernel lets do worse. So a request is checked for its form only,
//! and it cannot make us wait: the sockets do not block, and what is not a line soon is dropped.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Nanos, Pid};
use sys::process;

/// The variable in which a program that we start finds the socket.
pub const VARIABLE: &str = "FATHOM_CONTROL";
/// Longest request, and longest name of a mark.
const LONGEST: usize = 1024;
/// Most connections at a time.
const MOST_CLIENTS: usize = 64;
/// How long an answer may take: a collector looks around at least ten times a second, unless it writes its result.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the answer to `status` says of a collection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CollectionStatus {
    /// The collecting process.
    pub collector: i32,
    /// The observed process; `None` for a machine.
    pub target: Option<i32>,
    /// The result's directory, absolute.
    pub result: PathBuf,
    /// The analysis.
    pub analysis: String,
    /// The program and its arguments.
    pub command: String,
    /// Whether it is paused now.
    pub paused: bool,
}

impl CollectionStatus {
    fn lines(&self) -> String {
        let target = self.target.map_or(String::new(), |pid| format!("target {pid}\n"));
        format!(
            "collector {}\n{target}result {}\nanalysis {}\ncommand {}\npaused {}\n",
            self.collector,
            in_one_line(&self.result.display().to_string()),
            self.analysis,
            in_one_line(&self.command),
            self.paused
        )
    }

    fn parse(text: &str) -> Option<CollectionStatus> {
        let mut about = CollectionStatus::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match key {
                "collector" => about.collector = value.parse().ok()?,
                "target" => about.target = Some(value.parse().ok()?),
                "result" => about.result = value.into(),
                "analysis" => value.clone_into(&mut about.analysis),
                "command" => value.clone_into(&mut about.command),
                "paused" => about.paused = value.parse().ok()?,
                _ => {}
            }
        }
        (about.collector > 0).then_some(about)
    }
}

fn in_one_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Observe nothing.
    Pause,
    /// Observe again.
    Resume,
    /// Name this moment.
    Mark(String),
    /// Name this moment of CLOCK_MONOTONIC.
    MarkAt(Nanos, String),
    /// Say what you do.
    Status,
}

impl Wish {
    fn parse(line: &str) -> Result<Wish, &'static str> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("pause", "") => Ok(Wish::Pause),
            ("resume", "") => Ok(Wish::Resume),
            ("status", "") => Ok(Wish::Status),
            ("mark", name) if !name.trim().is_empty() => Ok(Wish::Mark(in_one_line(name))),
            ("mark-at", rest) => match rest.split_once(' ').map(|(at, name)| (at.parse(), name)) {
                Some((Ok(at), name)) if !name.trim().is_empty() => {
                    Ok(Wish::MarkAt(Nanos(at), in_one_line(name)))
                }
                _ => Err("a mark needs a time and a name"),
            },
            ("mark", _) => Err("a mark needs a name"),
            _ => Err("this version does not know that request"),
        }
    }

    fn line(&self) -> String {
        match self {
            Wish::Pause => "pause\n".to_owned(),
            Wish::Resume => "resume\n".to_owned(),
            Wish::Status => "status\n".to_owned(),
            Wish::MarkAt(at, name) => format!("mark-at {} {}\n", at.0, in_one_line(name)),
            Wish::Mark(name) => format!("mark {}\n", in_one_line(name)),
        }
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Request {
    /// What is asked for.
    pub wish: Wish,
    /// Who asks.
    pub from: Option<Pid>,
    stream: UnixStream,
}

impl Request {
    /// Answers it. Who asked may be gone: that is not our concern.
    pub fn answer(mut self, answer: Result<String, String>) {
        let text = match answer {
            Ok(text) => format!("ok {text}\n"),
            Err(text) => format!("no {text}\n"),
        };
        let _ = self.stream.write_all(text.as_bytes());
    }
}

/// The collector's end.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<(UnixStream, Vec<u8>)>,
}

impl Control {
    /// Opens a socket in the first of these directories that can be had.
    pub fn open(directories: &[PathBuf]) -> io::Result<Control> {
        let mut error = io::Error::from(io::ErrorKind::NotFound);
        for directory in directories {
            match Control::open_in(directory) {
                Ok(control) => return Ok(control),
                Err(another) => error = another,
            }
        }
        Err(error)
    }

    fn open_in(directory: &Path) -> io::Result<Control> {
        match std::fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => check(directory)?,
        }
        // The time makes the name free, whatever a killed collector with our process id left behind.
        let name = format!("{}-{}", std::process::id(), process::monotonic().0);
        let path = directory.join(name);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, path, clients: Vec::new() })
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Descriptors that become readable when a request arrives.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd())
            .chain(self.clients.iter().map(|(stream, _)| stream.as_fd()))
    }

    /// The requests that are complete.
    pub fn requests(&mut self) -> Vec<Request> {
        // accept(2) makes a socket before it finds that nobody asks: 35 us, against one for poll(2).
        let asks = |listener: &UnixListener| {
            process::poll_readable(&[listener.as_fd()], Duration::ZERO).is_ok_and(|all| all[0])
        };
        while self.clients.len() < MOST_CLIENTS
            && asks(&self.listener)
            && let Ok((stream, _)) = self.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                self.clients.push((stream, Vec::new()));
            }
        }
        let mut complete = Vec::new();
        for (mut stream, mut text) in std::mem::take(&mut self.clients) {
            let is_open = receive(&mut stream, &mut text);
            if let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&text[..end]).into_owned();
                let from = process::peer(stream.as_fd()).ok().map(|peer| peer.pid);
                match Wish::parse(&line) {
                    Ok(wish) => complete.push(Request { wish, from, stream }),
                    Err(why) => {
                        Request { wish: Wish::Status, from, stream }.answer(Err(why.to_owned()));
                    }
                }
            } else if is_open && text.len() <= LONGEST {
                self.clients.push((stream, text));
            }
        }
        complete
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads what is there; false at the end.
fn receive(stream: &mut UnixStream, text: &mut Vec<u8>) -> bool {
    let mut bytes = [0; LONGEST];
    match stream.read(&mut bytes) {
        Ok(0) => false,
        Ok(count) => {
            text.extend_from_slice(&bytes[..count]);
            true
        }
        Err(error) => {
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        }
    }
}

/// Where this user's collections have their sockets, best first. Both are the same for every shell of a user.
#[must_use]
pub fn directories() -> [PathBuf; 2] {
    let user = process::user_id();
    [format!("/run/user/{user}/fathom").into(), format!("/tmp/fathom-{user}").into()]
}

/// Whether a directory is ours alone. Anybody may make one of this name in /tmp before us.
fn check(directory: &Path) -> io::Result<()> {
    let about = std::fs::symlink_metadata(directory)?;
    let is_ours = about.is_dir() && about.uid() == process::user_id() && about.mode() & 0o077 == 0;
    if is_ours {
        return Ok(());
    }
    let why = format!("{} is not a directory that only this user may enter", directory.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// A collection that answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningCollection {
    /// What it says of itself.
    pub about: CollectionStatus,
    socket: PathBuf,
}

impl RunningCollection {
    /// Asks it for something. The inner error is its own refusal.
    ///
    /// # Errors
    /// The collection has ended meanwhile, or does not answer.
    pub fn ask(&self, wish: &Wish) -> io::Result<Result<String, String>> {
        ask(&self.socket, wish)
    }
}

fn ask(socket: &Path, wish: &Wish) -> io::Result<Result<String, String>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if !process::peer(stream.as_fd()).is_ok_and(|peer| peer.user == process::user_id()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user answers"));
    }
    stream.write_all(wish.line().as_bytes())?;
    let mut answer = String::new();
    stream.take(1 << 16).read_to_string(&mut answer)?;
    match answer.split_once(' ') {
        Some(("ok", text)) => Ok(Ok(text.trim_end().to_owned())),
        Some(("no", text)) => Ok(Err(text.trim_end().to_owned())),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without an answer")),
    }
}

/// The collections of this user that run, and what is wrong with the others: sockets that do not answer, directories of
/// others. Sockets that a killed collector left behind are removed.
#[must_use]
pub fn running(directories: &[PathBuf]) -> (Vec<RunningCollection>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for directory in directories.iter().filter(|directory| directory.exists()) {
        if let Err(error) = check(directory) {
            problems.push(error.to_string());
            continue;
        }
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for socket in entries.map(|entry| entry.path()) {
            match ask(&socket, &Wish::Status) {
                Ok(Ok(text)) => match CollectionStatus::parse(&text) {
                    Some(about) => found.push(RunningCollection { about, socket }),
                    None => problems.push(format!("{} answers with nonsense", socket.display())),
                },
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    let _ = std::fs::remove_file(&socket);
                }
                // It ended just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(Err(error)) => problems.push(format!("{}: {error}", socket.display())),
                Err(error) => problems.push(format!("{}: {error}", socket.display())),
            }
        }
    }
    found.sort_by_key(|one| one.about.collector);
    (found, problems)
}

/// The answer to `status`.
#[must_use]
pub fn status(about: &CollectionStatus) -> String {
    format!("\n{}", about.lines())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("fathom-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    fn about() -> CollectionStatus {
        let command = "./a b\nc".to_owned();
        CollectionStatus {
            collector: 7,
            target: Some(9),
            command,
            paused: true,
            ..CollectionStatus::default()
        }
    }

    /// Answers until the asking thread is done.
    fn serve<T>(control: &mut Control, asking: std::thread::JoinHandle<T>) -> (T, Vec<Wish>) {
        let mut wishes = Vec::new();
        while !asking.is_finished() {
            for request in control.requests() {
                assert_eq!(request.from, Some(Pid(std::process::id() as i32)));
                wishes.push(request.wish.clone());
                let answer = match &request.wish {
                    Wish::Status => Ok(status(&about())),
                    Wish::Mark(name) => Ok(format!("marked {name}")),
                    _ => Err("not now".to_owned()),
                };
                request.answer(answer);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        (asking.join().unwrap(), wishes)
    }

    #[test]
    fn a_collection_is_found_and_answers() {
        let directories = [directory("answers")];
        let mut control = Control::open(&directories).unwrap();
        let path = directories[0].clone();
        let asking = std::thread::spawn(move || {
            let (found, problems) = running(&[path]);
            assert!(problems.is_empty(), "{problems:?}");
            let one = found.into_iter().next().unwrap();
            (one.about.clone(), one.ask(&Wish::Mark("x\ny".into())), one.ask(&Wish::Pause))
        });
        let ((found, marked, paused), wishes) = serve(&mut control, asking);
        assert_eq!(found, CollectionStatus { command: "./a b c".to_owned(), ..about() });
        assert_eq!(marked.unwrap(), Ok("marked x y".to_owned()));
        assert_eq!(paused.unwrap(), Err("not now".to_owned()));
        assert_eq!(wishes, [Wish::Status, Wish::Mark("x y".to_owned()), Wish::Pause]);
        drop(control);
        assert_eq!(running(&directories), (Vec::new(), Vec::new()));
        std::fs::remove_dir(&directories[0]).unwrap();
    }

    #[test]
    fn what_is_no_request_is_refused_or_dropped() {
        let directories = [directory("hostile")];
        let mut control = Control::open(&directories).unwrap();
        let path = control.path().to_owned();
        let asking = std::thread::spawn(move || {
            let say = |text: &[u8]| {
                let mut stream = UnixStream::connect(&path).unwrap();
                // The other end may close it while we write.
                let _ = stream.write_all(text);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                String::from_utf8(answer).unwrap()
            };
            let wordless = UnixStream::connect(&path).unwrap();
            let answers = [say(b"mark \n"), say(b"\xff\xfe\n"), say(b"pause"), say(&[b'x'; 9000])];
            drop(wordless);
            answers
        });
        let (answers, wishes) = serve(&mut control, asking);
        assert!(answers[0].starts_with("no a mark needs a name"), "{answers:?}");
        assert!(answers[1].starts_with("no this version does not know"), "{answers:?}");
        assert_eq!([&answers[2], &answers[3]], ["", ""]);
        assert!(wishes.is_empty());
        drop(control);
        std::fs::remove_dir(&directories[0]).unwrap();
    }

    #[test]
    fn a_killed_collector_leaves_nothing_in_the_way() {
        let directories = [directory("stale")];
        let control = Control::open(&directories).unwrap();
        drop(UnixListener::bind(directories[0].join("left")).unwrap());
        assert!(directories[0].join("left").exists());
        drop(control);
        assert_eq!(running(&directories), (Vec::new(), Vec::new()));
        assert!(!directories[0].join("left").exists());
        std::fs::remove_dir(&directories[0]).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_enter_is_not_used() {
        let directories = [directory("open")];
        std::fs::create_dir(&directories[0]).unwrap();
        std::fs::set_permissions(&directories[0], PermissionsExt::from_mode(0o755)).unwrap();
        let error = Control::open(&directories).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let (found, problems) = running(&directories);
        assert!(found.is_empty() && problems[0].contains("only this user may enter"));
        std::fs::remove_dir(&directories[0]).unwrap();
    }
}
