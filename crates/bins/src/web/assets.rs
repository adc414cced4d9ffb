//! The files of the page, in the program: which there are, and in which form a browser gets them.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{SHA256, digest};

/// The page as `scripts/web build` made it.
struct Dist {
    /// A hash of all that is in it.
    build: &'static str,
    /// Each by its name, which holds a hash of its content; `index.html` is the document.
    files: &'static [(&'static str, &'static [u8])],
}

static DIST: Dist = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/web/dist/dist.inc"));

const DOCUMENT: &str = "index.html";
/// What stands in the document where the base path goes.
const BASE: &str = "__BASE__";

/// Which page this program has.
pub(crate) fn build() -> &'static str {
    DIST.build
}

/// A file as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Asset {
    pub(crate) media: &'static str,
    pub(crate) tag: String,
    /// Its content never changes under this name.
    pub(crate) immutable: bool,
    plain: Bytes,
    packed: Arc<OnceLock<Option<Bytes>>>,
}

impl Asset {
    fn new(name: &str, content: Bytes, immutable: bool) -> Self {
        let hash = digest(&SHA256, &content);
        let tag: String = hash.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        Self { media: media(name), tag, immutable, plain: content, packed: Arc::default() }
    }

    /// Its bytes as they are.
    pub(crate) fn plain(&self) -> Bytes {
        self.plain.clone()
    }

    /// Its bytes gzipped; once made they stay. None = they can only be sent as they are.
    pub(crate) fn packed(&self) -> Option<Bytes> {
        self.packed.get_or_init(|| gzip(&self.plain)).clone()
    }
}

/// Bytes gzipped; none if the encoder fails.
pub(crate) fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::new(6));
    encoder.write_all(bytes).and_then(|()| encoder.finish()).ok().map(Bytes::from)
}

fn media(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

/// The files for a page at a base path.
#[derive(Clone, Debug)]
pub(crate) struct Assets {
    document: Asset,
    files: Arc<Vec<(&'static str, Asset)>>,
}

impl Assets {
    /// Those of a page whose paths begin with `base`.
    pub(crate) fn new(base: &str) -> Self {
        let source = DIST.files.iter().find(|(name, _)| *name == DOCUMENT).map(|(_, content)| *content);
        let text = String::from_utf8_lossy(source.unwrap_or_default()).replace(BASE, base);
        let files = DIST.files.iter().filter(|(name, _)| *name != DOCUMENT);
        let file = |(name, content): &(&'static str, &'static [u8])| {
            (*name, Asset::new(name, Bytes::from_static(content), true))
        };
        Self { document: Asset::new(DOCUMENT, text.into(), false), files: Arc::new(files.map(file).collect()) }
    }

    /// What is found at a path below the base: a file by its name; the document for what has no extension, or lies deeper.
    pub(crate) fn at(&self, path: &str) -> Option<&Asset> {
        match path.contains('.') && !path.contains('/') {
            true => self.files.iter().find(|(name, _)| *name == path).map(|(_, asset)| asset),
            false => Some(&self.document),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_document_names_its_base_and_every_file_it_asks_for_is_there() {
        let assets = Assets::new("/orlop/ui/");
        let document = assets.at("").unwrap();
        let text = String::from_utf8(document.plain().to_vec()).unwrap();
        assert!(!text.contains(BASE) && text.contains("content=\"/orlop/ui/\""), "{text}");
        let named: Vec<&str> = text.split("\"/orlop/ui/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(named.len() > 2, "{text}");
        for name in named.into_iter().filter(|name| !name.is_empty()) {
            assert!(assets.at(name).is_some_and(|asset| asset.immutable), "{name}");
        }
    }

    #[test]
    fn every_file_unpacks_to_itself_and_an_unknown_one_is_not_there() {
        let assets = Assets::new("/ui/");
        for (name, asset) in assets.files.iter() {
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&asset.packed().unwrap()[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(asset.plain(), unpacked, "{name}");
        }
        assert!(assets.at("app-00000000.js").is_none());
        assert!(!assets.at("flows/etl.v2").unwrap().immutable, "names of flows may hold a dot");
    }

    #[test]
    fn the_page_stays_within_its_budget() {
        let assets = Assets::new("/ui/");
        let all: usize = assets.files.iter().map(|(_, asset)| asset.packed().unwrap().len()).sum();
        assert!(all <= 250 << 10, "all files of the page are {all} bytes gzipped");
        let text = String::from_utf8(assets.at("").unwrap().plain().to_vec()).unwrap();
        let first = assets.files.iter().filter(|(name, _)| text.contains(name));
        let first: usize = first.map(|(_, asset)| asset.packed().unwrap().len()).sum::<usize>()
            + assets.document.packed().unwrap().len();
        assert!(first <= 100 << 10, "the first load is {first} bytes gzipped");
    }
}
