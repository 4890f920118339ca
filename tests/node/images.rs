//! The images that the node is given.

use std::path::{Path, PathBuf};

use testbed::image::{self, ImageError, Profile};
use testbed::node::PAUSE_IMAGE;

/// The product's image, as the manifests name it.
const PRODUCT: &str = "ghcr.io/restow-dev/restow:0.1.0";
/// The archives of the images within the enclosure's directory.
const PRODUCT_ARCHIVE: &str = "restow.tar";
const GUEST_ARCHIVE: &str = "guest.tar";

/// Where they are.
pub(crate) struct Images {
    pub(crate) product: PathBuf,
    pub(crate) guest: PathBuf,
}

impl Images {
    /// Those that were built into a directory.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self { product: directory.join(PRODUCT_ARCHIVE), guest: directory.join(GUEST_ARCHIVE) }
    }

    /// Builds them into a directory: the product's from its own Dockerfile, around a release build of this work tree.
    pub(crate) fn build(directory: &Path) -> Result<(), ImageError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let images = Self::in_directory(directory);
        let product = image::build(root, directory, PRODUCT)?;
        std::fs::rename(product.archive, images.product).expect("move an image");
        let guest = image::static_binary(root, "testbed", "guest", Profile::Dev)?;
        let context = directory.join("guest-context");
        std::fs::create_dir(&context).expect("make a directory");
        place(&guest, &context.join("guest"));
        let dockerfile = root.join("tests/testbed/fixtures/guest.Dockerfile");
        image::pack(directory, &dockerfile, None, &context, PAUSE_IMAGE, &images.guest)
    }

    /// Copies them from one directory into another.
    pub(crate) fn copy(from: &Path, to: &Path) {
        let (from, to) = (Self::in_directory(from), Self::in_directory(to));
        place(&from.product, &to.product);
        place(&from.guest, &to.guest);
    }
}

fn place(from: &Path, to: &Path) {
    std::fs::copy(from, to).expect("copy a file");
}
