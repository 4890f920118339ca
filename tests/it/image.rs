//! The image, as the Dockerfile makes it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testbed::image;

/// What an image may weigh.
const SIZE_MAX: u64 = 25_000_000;

/// `.ci/run` runs it.
#[test]
#[ignore = "needs root and buildah"]
fn the_image_is_small_runs_as_nobody_and_holds_one_static_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let name = "ghcr.io/restow-dev/restow:test";
    let image = image::build(root, directory.path(), name).unwrap();
    let size = fs::metadata(&image.archive).unwrap().len();
    assert!(size < SIZE_MAX, "{size} bytes");

    let said: Value = serde_json::from_str(&image::inspect(directory.path(), name).unwrap()).unwrap();
    let config = &said["OCIv1"]["config"];
    assert_eq!((&config["User"], &config["Entrypoint"]), (&json!("65532:65532"), &json!(["/restow"])));
    let labels = config["Labels"].as_object().unwrap();
    for label in ["title", "description", "source", "documentation", "licenses", "version"] {
        let label = format!("org.opencontainers.image.{label}");
        assert!(labels[&label].as_str().is_some_and(|text| !text.is_empty()), "{label}");
    }
    assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(files(&image.archive, &directory.path().join("unpacked")), ["restow"]);

    // Nothing but the program: what it needed would be missing.
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::copy(&image.binary, empty.join("restow")).unwrap();
    let ran = Command::new("chroot").arg(&empty).args(["/restow", "--version"]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        format!("restow {}\n", env!("CARGO_PKG_VERSION")),
        "{ran:?}"
    );
}

/// The names of all files in the layers of an OCI archive.
fn files(archive: &Path, unpacked: &Path) -> Vec<String> {
    let tar = |args: &[&str], file: &Path| {
        let output = Command::new("tar").args(args).arg(file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    fs::create_dir(unpacked).unwrap();
    tar(&["-C", unpacked.to_str().unwrap(), "-xf"], archive);
    let read = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let blob = |entry: &Value| {
        let digest = entry["digest"].as_str().unwrap().replace(':', "/");
        unpacked.join("blobs").join(digest)
    };
    let manifest = read(&blob(&read(&unpacked.join("index.json"))["manifests"][0]));
    let layers = manifest["layers"].as_array().unwrap().iter();
    layers
        .flat_map(|layer| tar(&["-tf"], &blob(layer)).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}
