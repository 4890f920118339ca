//! The product's image, built as its Dockerfile says but for the compiler's stage: without a daemon, a registry or a network.
//! And other images of one program.
//!
//! Needs `buildah` on PATH and root.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// An image in a file that `ctr images import` takes.
#[derive(Clone, Debug)]
pub struct Image {
    /// The file, an OCI archive.
    pub archive: PathBuf,
    /// The name and tag it has in there.
    pub name: String,
    /// The static binary in it.
    pub binary: PathBuf,
}

/// How a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As it is shipped.
    Release,
    /// Sooner, for what is not shipped.
    Dev,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A program can't be run.
    #[error("run {program}: is it installed?")]
    Run {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} {action} ended with {status}: {said}")]
    Failed {
        /// The program.
        program: String,
        /// What it was to do.
        action: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of what it said.
        said: String,
    },
    /// A file can't be written.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Builds the image of the workspace at `root` in `directory`, and calls it `name` (`repository:tag`). Blocks, for minutes if
/// the binary is not built yet.
///
/// # Errors
/// If `cargo` or `buildah` fails, or the directory can't be written.
pub fn build(root: &Path, directory: &Path, name: &str) -> Result<Image, ImageError> {
    let binary = static_binary(root, "restow", "restow", Profile::Release)?;
    let context = directory.join("context");
    let copied = context.join("dist/restow");
    write(&context.join("dist"), |path| fs::create_dir_all(path))?;
    write(&copied, |path| fs::copy(&binary, path).map(drop))?;
    let archive = directory.join("image.tar");
    let dockerfile = root.join("manifests/Dockerfile");
    pack(directory, &dockerfile, Some("prebuilt"), &context, name, &archive)?;
    Ok(Image { archive, name: name.to_owned(), binary: copied })
}

/// Makes an image of files that are at hand, by a Dockerfile up to a stage, into an archive. Its store is in `directory`.
///
/// # Errors
/// If `buildah` fails.
pub fn pack(
    directory: &Path,
    dockerfile: &Path,
    stage: Option<&str>,
    context: &Path,
    name: &str,
    archive: &Path,
) -> Result<(), ImageError> {
    let mut bud: Vec<&OsStr> = ["bud", "--isolation", "chroot", "--tag", name].map(OsStr::new).into();
    bud.extend(stage.iter().flat_map(|stage| ["--target", stage]).map(OsStr::new));
    bud.extend([OsStr::new("--file"), dockerfile.as_os_str(), context.as_os_str()]);
    buildah(directory, bud)?;
    let to = format!("oci-archive:{}:{name}", archive.display());
    buildah(directory, ["push", name, &to].map(OsStr::new)).map(drop)
}

/// What the image says of itself, as `buildah inspect` prints it.
///
/// # Errors
/// If there is no such image in `directory`.
pub fn inspect(directory: &Path, name: &str) -> Result<String, ImageError> {
    let output = buildah(directory, ["inspect", "--type", "image", name].map(OsStr::new))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds a program of the workspace that needs no library, into a target directory of its own, with the flags of the
/// Dockerfile. Blocks, for minutes if it is not built yet.
///
/// # Errors
/// If `cargo` fails.
pub fn static_binary(
    root: &Path,
    package: &str,
    program: &str,
    profile: Profile,
) -> Result<PathBuf, ImageError> {
    let printed = run(Command::new("rustc").args(["--print", "host-tuple"]), "--print host-tuple")?;
    let host = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
    let targets = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = targets.join("image");
    let (profile, built) = match profile {
        Profile::Release => ("release", "release"),
        Profile::Dev => ("dev", "debug"),
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_MANIFEST_DIR");
    cargo.args(["build", "--locked", "--package", package, "--bin", program]);
    cargo.args(["--profile", profile, "--target", &host, "--target-dir"]).arg(&target);
    run(&mut cargo, "build")?;
    Ok(target.join(host).join(built).join(program))
}

/// Runs buildah with a store of its own in `directory`.
fn buildah<'a>(directory: &Path, args: impl IntoIterator<Item = &'a OsStr>) -> Result<Output, ImageError> {
    let mut buildah = Command::new("buildah");
    buildah.args(["--storage-driver", "vfs", "--root"]).arg(directory.join("store"));
    buildah.arg("--runroot").arg(directory.join("run"));
    let args: Vec<_> = args.into_iter().collect();
    run(buildah.args(&args), &args[0].to_string_lossy())
}

fn run(command: &mut Command, action: &str) -> Result<Output, ImageError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| ImageError::Run { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<_> = said.lines().rev().take(20).collect();
    let said = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    Err(ImageError::Failed { program, action: action.to_owned(), status: output.status, said })
}

fn write(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), ImageError> {
    write(path).map_err(|source| ImageError::Write { path: path.to_owned(), source })
}
