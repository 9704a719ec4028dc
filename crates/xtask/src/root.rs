//! Where things are: the checkout and its git-ignored folder.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The checkout. Cargo says so when it runs us; a binary started by hand remembers where it was built.
pub(crate) fn checkout() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package
        .ancestors()
        .nth(2)
        .map_or_else(|| package.clone(), Path::to_path_buf)
}

/// `.paidan/<name>`, made if it is missing.
///
/// Postgres refuses to run as root and then runs as another user, who must be able to walk to its data. Where
/// the checkout is closed to others (`/root`), the folder is in the system's temporary one instead.
pub(crate) fn folder(name: &str) -> anyhow::Result<PathBuf> {
    let inside = checkout().join(".paidan");
    let base = if crate::process::is_root() && !open_to_all(&checkout()) {
        std::env::temp_dir().join(format!("paidan{}", checkout().display()).replace('/', "-"))
    } else {
        inside
    };
    let folder = base.join(name);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn open_to_all(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.ancestors().all(|folder| {
        std::fs::metadata(folder).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checkout_has_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(super::checkout().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
