//! The files of the web page: embedded in the binary, or read from a folder while the page is
//! developed.
//!
//! They hold nothing about anybody, so everybody may read them: a browser loads them before it has
//! a cookie. Each comes with a policy that lets it load nothing from elsewhere.

mod response;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use countersign_core::limits::WEB_FILE_BYTES_MAX;
use countersign_protocol::Reason;
use rust_embed::RustEmbed;
use sha2::{Digest as _, Sha256};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::web;

pub(crate) use response::add_security_headers;

/// The document that every address of the page gives.
const INDEX: &str = "index.html";

/// Addresses of the page besides `/`. The page itself decides what it shows there.
const PAGE_ROUTES: [&str; 7] = [
    "/ask/{*rest}",
    "/agents",
    "/agents/{*rest}",
    "/rules",
    "/timeline",
    "/insights",
    "/settings",
];

/// The terminal's document, script and style. They are loaded by a frame without an origin.
const FRAME_FOLDER: &str = "term/";

/// What `make web` made, texts in their compressed form alone, which keeps the binary small. The folder
/// may be missing, so that the host builds without Node.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
#[exclude = "*.js"]
#[exclude = "*.css"]
#[exclude = "*.html"]
#[exclude = "*.svg"]
#[exclude = "*.webmanifest"]
struct EmbeddedFiles;

/// Where the files come from.
#[derive(Clone, Debug)]
pub(crate) enum WebAssets {
    Embedded,
    Folder(PathBuf),
}

/// One file, in one of its forms.
#[derive(Debug, PartialEq, Eq)]
struct WebAsset {
    bytes: Cow<'static, [u8]>,
    hash: [u8; 32],
}

impl WebAsset {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            hash: Sha256::digest(&bytes).into(),
            bytes: Cow::Owned(bytes),
        }
    }

    /// The plain form of a compressed file, for clients that take no other.
    fn decompress(&self) -> Option<Self> {
        let mut bytes = Vec::new();
        let plain = flate2::read::GzDecoder::new(&*self.bytes);
        plain
            .take(WEB_FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(Self::new(bytes))
    }
}

impl WebAssets {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        folder.map_or(Self::Embedded, Self::Folder)
    }

    /// Whether there is a page to serve.
    pub(crate) fn is_built(&self) -> bool {
        match self {
            Self::Embedded => self.find_compressed(INDEX).is_some(),
            Self::Folder(folder) => folder.join(INDEX).is_file(),
        }
    }

    fn find_compressed(&self, name: &str) -> Option<WebAsset> {
        self.find(&format!("{name}.gz"))
    }

    fn find(&self, name: &str) -> Option<WebAsset> {
        match self {
            Self::Embedded => EmbeddedFiles::get(name).map(|file| WebAsset {
                bytes: file.data,
                hash: file.metadata.sha256_hash(),
            }),
            Self::Folder(folder) => read_file(folder, name),
        }
    }
}

/// A file of the folder. A name that leads out of it, by `..` or by a link, finds nothing.
fn read_file(folder: &Path, name: &str) -> Option<WebAsset> {
    let is_plain = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return None;
    }
    let path = folder.join(name).canonicalize().ok()?;
    if !path.starts_with(folder.canonicalize().ok()?) || !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(WEB_FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(WebAsset::new(bytes))
}

/// The addresses of the page besides `/`, which is also the WebSocket of the host wire.
pub(crate) fn router() -> Router<Arc<ServerState>> {
    let routes = PAGE_ROUTES.into_iter();
    routes.fold(Router::new(), |router, path| router.route(path, get(page)))
}

/// Whether a path is an address of the page.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/"
        || PAGE_ROUTES.iter().any(|route| {
            let folder = route.strip_suffix("{*rest}");
            folder.map_or(path == *route, |folder| {
                path.starts_with(folder) && path.len() > folder.len()
            })
        })
}

/// Whether a path is one of the terminal's files.
pub(crate) fn is_frame_file(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|name| name.starts_with(FRAME_FOLDER))
}

/// Serves the document of the page, at any of its addresses.
pub(crate) async fn page(State(state): State<Arc<ServerState>>, headers: HeaderMap) -> Response {
    let found = respond(&state.web_assets, INDEX, headers).await;
    found.unwrap_or_else(web::not_built_page)
}

/// Serves a file by its name, and refuses any other path.
pub(crate) async fn file_or_unknown(
    State(state): State<Arc<ServerState>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let name = uri.path().trim_start_matches('/');
    let reads = matches!(method, Method::GET | Method::HEAD);
    // The compressed files are forms of others, and not addresses of their own.
    if reads
        && !name.is_empty()
        && Path::new(name).extension() != Some(OsStr::new("gz"))
        && let Some(response) = respond(&state.web_assets, name, headers).await
    {
        return response;
    }
    let message = "there is no such path; the API is under /api/v1";
    ApiError::plain(Reason::UnknownPath, message).into_response()
}

async fn respond(assets: &WebAssets, name: &str, headers: HeaderMap) -> Option<Response> {
    if matches!(assets, WebAssets::Embedded) {
        return response::file_response(assets, name, &headers);
    }
    let (assets, name) = (assets.clone(), name.to_owned());
    // The disk may be slow, and the thread serves others.
    let reading =
        tokio::task::spawn_blocking(move || response::file_response(&assets, &name, &headers));
    reading.await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_compressed_file_gives_its_plain_form_and_a_damaged_one_nothing() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"app").unwrap();
        let compressed = WebAsset::new(encoder.finish().unwrap());
        let plain = compressed.decompress();
        assert_eq!(plain, Some(WebAsset::new(b"app".to_vec())));
        let cut = WebAsset::new(compressed.bytes[..8].to_vec());
        assert_eq!(cut.decompress(), None);
    }

    #[test]
    fn names_that_lead_out_of_the_folder_find_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("dist");
        std::fs::create_dir_all(folder.join("icons")).unwrap();
        std::fs::write(scratch.path().join("secret.txt"), "secret").unwrap();
        std::fs::write(folder.join("app.js"), "app").unwrap();
        std::fs::write(folder.join("icons/a.svg"), "icon").unwrap();
        std::os::unix::fs::symlink(scratch.path().join("secret.txt"), folder.join("link.txt"))
            .unwrap();
        let assets = WebAssets::new(Some(folder));
        let found = [
            "app.js",
            "icons/a.svg",
            "../secret.txt",
            "icons/../../secret.txt",
            "link.txt",
            "icons",
            "/etc/passwd",
            "nothing.js",
        ]
        .map(|name| assets.find(name).map(|asset| asset.bytes.into_owned()));
        assert_eq!(
            found,
            [
                Some(b"app".to_vec()),
                Some(b"icon".to_vec()),
                None,
                None,
                None,
                None,
                None,
                None
            ]
        );
    }
}
