//! A folder for each run of a command, so that two of them in one checkout never meet. A lock in it says whether its
//! run goes on: the kernel frees it when the process ends, however that comes about, and no later process that happens
//! to get the same id is taken for it.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::root;

const LOCK: &str = "lock";

/// `.paidan/<command>/<process id>`.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    stays: bool,
    _lock: Lock,
}

impl RunFolder {
    /// Makes one, and removes those whose runs have ended.
    pub(crate) fn new(command: &str) -> anyhow::Result<Self> {
        Self::inside(&root::folder(command)?)
    }

    fn inside(base: &Path) -> anyhow::Result<Self> {
        // Nobody sweeps between the making of a folder and the lock in it.
        let _turn = Lock::wait(&base.join(LOCK))?;
        sweep(base);
        let (path, lock) = make(base)?;
        Ok(Self {
            path,
            stays: false,
            _lock: lock,
        })
    }

    /// What is in it can be looked at until the next run of the same command.
    pub(crate) fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.stays {
            std::fs::remove_dir_all(&self.path).ok();
        }
    }
}

fn make(base: &Path) -> anyhow::Result<(PathBuf, Lock)> {
    // The number may be taken: by a folder that could not be removed, or by a run in another container.
    for attempt in 0..100 {
        let mut name = std::process::id().to_string();
        if attempt > 0 {
            name += &format!("-{attempt}");
        }
        let path = base.join(name);
        match std::fs::create_dir(&path) {
            Ok(()) => {
                let lock = Lock::wait(&path.join(LOCK))?;
                return Ok((path, lock));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make {}", path.display()));
            }
        }
    }
    anyhow::bail!("no free name for a folder in {}", base.display())
}

/// Removes what no running process has locked.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !Lock::is_held(&path.join(LOCK)) {
            std::fs::remove_dir_all(path).ok();
        }
    }
}

/// A file that one process at a time has, until it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    fn wait(path: &Path) -> anyhow::Result<Self> {
        let file = open(path)?;
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Self { _file: file })
    }

    /// None while another has it.
    pub(crate) fn take(path: &Path) -> anyhow::Result<Option<Self>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    pub(crate) fn is_held(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| file.try_lock_shared().is_err())
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_leaves_another_alone_and_sweeps_what_ended() {
        let base = tempfile::tempdir().unwrap();
        let one = RunFolder::inside(base.path()).unwrap().staying();
        std::fs::write(one.path().join("data"), "1").unwrap();
        let two = RunFolder::inside(base.path()).unwrap();
        assert_ne!(one.path(), two.path());
        assert!(one.path().join("data").exists());

        let (ended, removed) = (one.path().to_owned(), two.path().to_owned());
        drop((one, two));
        assert!(ended.join("data").exists(), "it is there to be looked at");
        assert!(!removed.exists());
        let three = RunFolder::inside(base.path()).unwrap();
        assert!(!ended.join("data").exists());
        assert!(three.path().exists());
    }

    #[test]
    fn what_an_earlier_version_left_is_swept() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("redis/appendonlydir")).unwrap();
        let _run = RunFolder::inside(base.path()).unwrap();
        assert!(!base.path().join("redis").exists());
    }

    #[test]
    fn a_lock_is_had_by_one_and_freed_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        assert!(!Lock::is_held(&path));
        let lock = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::is_held(&path));
        assert!(Lock::take(&path).unwrap().is_none());
        drop(lock);
        assert!(!Lock::is_held(&path));
        assert!(Lock::take(&path).unwrap().is_some());
    }
}
