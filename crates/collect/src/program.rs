//! Finds the program to run, and refuses early, with a reason, what cannot be profiled.
//!
//! What not: starting it. The kernel may still refuse later (`sys::process::LaunchError`).

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a program cannot be profiled.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Neither a path nor a name in PATH.
    #[error("program not found: '{0}' is neither a file here nor in PATH")]
    NotFound(String),
    /// A directory or device.
    #[error("'{}' is not a file that can be executed (it is a {kind})", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        kind: &'static str,
    },
    /// No execute permission.
    #[error("'{}' is not executable: try `chmod +x {}`", .0.display(), .0.display())]
    NotExecutable(PathBuf),
    /// Cannot be read at all.
    #[error("cannot read '{}': {error}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Neither ELF nor a script.
    #[error("'{}' is neither an ELF program nor a script with a #! line", .0.display())]
    NotAProgram(PathBuf),
    /// A 32-bit program.
    #[error("'{}' is a 32-bit program; Fathom profiles 64-bit programs only: build it with -m64", .0.display())]
    ThirtyTwoBit(PathBuf),
    /// Another architecture.
    #[error("'{}' is built for another CPU architecture ({machine}) than this machine's", path.display())]
    OtherArchitecture {
        /// The path.
        path: PathBuf,
        /// ELF machine number or its name.
        machine: String,
    },
    /// The kernel rightly withdraws our right to observe it.
    #[error(
        "'{}' is set-uid or set-gid: it would run with another user's rights, and the kernel does not let it be \
         observed; profile it as user id {owner}, or a copy without that bit",
        path.display()
    )]
    SetUserId {
        /// The path.
        path: PathBuf,
        /// The owner.
        owner: u32,
    },
}

/// Finds `name` as a shell would and checks that it can be profiled.
pub fn find(name: &str, search_path: &str) -> Result<PathBuf, ProgramError> {
    let path = locate(name, search_path)?;
    check(&path)?;
    Ok(path)
}

fn locate(name: &str, search_path: &str) -> Result<PathBuf, ProgramError> {
    if name.contains('/') {
        return if Path::new(name).exists() {
            Ok(PathBuf::from(name))
        } else {
            Err(ProgramError::NotFound(name.to_owned()))
        };
    }
    let executable = |path: &PathBuf| {
        std::fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    search_path
        .split(':')
        .map(|directory| Path::new(if directory.is_empty() { "." } else { directory }).join(name))
        .find(executable)
        .ok_or_else(|| ProgramError::NotFound(name.to_owned()))
}

fn check(path: &Path) -> Result<(), ProgramError> {
    let unreadable = |error| ProgramError::Unreadable { path: path.to_owned(), error };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() { "directory" } else { "special file" };
        return Err(ProgramError::NotAFile { path: path.to_owned(), kind });
    }
    let mode = metadata.permissions().mode();
    if mode & 0o111 == 0 {
        return Err(ProgramError::NotExecutable(path.to_owned()));
    }
    let user = sys::process::user_id();
    let changes_user = mode & 0o4000 != 0 && metadata.uid() != user;
    let changes_group = mode & 0o2000 != 0 && user != 0;
    if changes_user || changes_group {
        return Err(ProgramError::SetUserId { path: path.to_owned(), owner: metadata.uid() });
    }
    let mut head = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => file.take(64).read_to_end(&mut head).map_err(unreadable)?,
        // Execute permission without read permission: the kernel can run the file, we cannot check it.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(unreadable(error)),
    };
    check_head(path, &head)
}

/// ELF identification: System V gABI, "ELF Header" (class at 4, machine at 18).
fn check_head(path: &Path, head: &[u8]) -> Result<(), ProgramError> {
    if head.starts_with(b"#!") {
        return Ok(());
    }
    if !head.starts_with(b"\x7fELF") || head.len() < 20 {
        return Err(ProgramError::NotAProgram(path.to_owned()));
    }
    const EM_386: u16 = 3;
    const EM_X86_64: u16 = 62;
    const EM_AARCH64: u16 = 183;
    let native = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };
    let machine = u16::from_le_bytes([head[18], head[19]]);
    // x32 programs carry the 64-bit machine number in a 32-bit file.
    if head[4] == 1 && (machine == EM_386 || machine == native) {
        return Err(ProgramError::ThirtyTwoBit(path.to_owned()));
    }
    if machine != native {
        let machine = match machine {
            EM_X86_64 => "x86-64".to_owned(),
            EM_AARCH64 => "aarch64".to_owned(),
            other => format!("ELF machine {other}"),
        };
        return Err(ProgramError::OtherArchitecture { path: path.to_owned(), machine });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(head: &[u8]) -> String {
        check_head(Path::new("p"), head)
            .map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn programs_are_judged_by_their_head() {
        let elf = |class: u8, machine: u8| {
            let mut head = b"\x7fELF".to_vec();
            head.extend([class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, machine, 0]);
            head
        };
        assert_eq!(complaint(b"#!/bin/sh\n"), "fine");
        assert_eq!(complaint(&elf(2, if cfg!(target_arch = "x86_64") { 62 } else { 183 })), "fine");
        assert!(complaint(&elf(1, 3)).contains("32-bit"));
        assert!(complaint(&elf(2, 243)).contains("ELF machine 243"));
        assert!(complaint(b"hello").contains("neither an ELF program nor a script"));
        assert!(complaint(b"\x7fELF").contains("neither"));
    }

    #[test]
    fn names_are_searched_as_a_shell_does() {
        assert!(find("sh", "/nonexistent:/bin").is_ok());
        assert!(matches!(find("no-such-program", "/bin"), Err(ProgramError::NotFound(_))));
        assert!(matches!(find("/bin", ""), Err(ProgramError::NotAFile { kind: "directory", .. })));
        assert!(matches!(find("/etc/passwd", ""), Err(ProgramError::NotExecutable(_))));
    }
}
