//! An S3 store in memory, over HTTP on the loopback interface: objects whole and in parts, signatures in the query, and answers
//! as such stores give them. Owns its own reading of Signature Version 4, so that a wrong signature is found out.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::{digest, hmac};
use url::Url;

/// The longest body it takes, in bytes.
const BODY_MAX: usize = 1 << 30;

/// Keys to a store.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Access key id.
    pub id: &'static str,
    /// Secret access key.
    pub secret: &'static str,
}

/// What it holds.
#[derive(Debug, Default)]
struct World {
    objects: BTreeMap<String, Vec<u8>>,
    kinds: BTreeMap<String, String>,
    uploads: BTreeMap<String, BTreeMap<u16, Vec<u8>>>,
    asked: Vec<String>,
    faults: Vec<&'static str>,
}

/// A store with one bucket. It listens for as long as the process lives.
#[derive(Clone, Debug)]
pub struct Store {
    address: SocketAddr,
    bucket: &'static str,
    region: &'static str,
    keys: Option<Keys>,
    world: Arc<Mutex<World>>,
}

/// A request.
#[derive(Debug)]
struct Request {
    method: String,
    url: Url,
    host: String,
    kind: String,
    body: Vec<u8>,
}

impl Request {
    fn query(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
    }
}

/// Status, headers and body of an answer.
type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

fn failure(status: u16, code: &str) -> Answer {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>of the double</Message></Error>"
    );
    (status, Vec::new(), text.into_bytes())
}

impl Store {
    /// One that asks for these keys, or for none.
    ///
    /// # Errors
    /// There is no port.
    pub fn start(bucket: &'static str, region: &'static str, keys: Option<Keys>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let store = Self { address: listener.local_addr()?, bucket, region, keys, world: Arc::default() };
        let served = store.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = served.clone();
                // A client that has seen enough may be gone already.
                std::thread::spawn(move || store.serve(stream).ok());
            }
        });
        Ok(store)
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}?region={}", self.address, self.region)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.world().objects.get(key).cloned()
    }

    /// Media type of an object, as it was told where it began.
    #[must_use]
    pub fn media_type(&self, key: &str) -> Option<String> {
        self.world().kinds.get(key).cloned()
    }

    /// Keys of all objects.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.world().objects.keys().cloned().collect()
    }

    /// Changes an object behind the back of everybody.
    pub fn put(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        self.world().objects.insert(key.to_owned(), bytes.into());
    }

    /// Uploads that have begun and not ended.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.world().uploads.len()
    }

    /// Method, path and names of the query's members that begin it, of all requests.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.world().asked.clone()
    }

    /// Has the next requests fail so, one each.
    pub fn fail(&self, codes: &[&'static str]) {
        self.world().faults.extend(codes.iter().rev());
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(request) = read(&mut reader)? {
            let (status, headers, body) = self.answer(&request);
            let mut head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            stream.write_all(head.as_bytes())?;
            stream.write_all(b"\r\n")?;
            stream.write_all(&body)?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Answer {
        let what: Vec<&str> =
            ["uploads", "partNumber", "uploadId"].into_iter().filter(|name| request.query(name).is_some()).collect();
        let line = format!("{} {} {}", request.method, request.url.path(), what.join("+"));
        self.world().asked.push(line.trim_end().to_owned());
        if let Some(code) = self.world().faults.pop() {
            let status = match code {
                "SlowDown" => 503,
                "PermanentRedirect" => 301,
                "NoSuchUpload" => 404,
                _ => 400,
            };
            return failure(status, code);
        }
        if let Err(code) = self.signed(request) {
            return failure(403, code);
        }
        let path = request.url.path().trim_start_matches('/');
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        if bucket != self.bucket {
            return failure(404, "NoSuchBucket");
        }
        self.act(request, &decoded(key))
    }

    fn act(&self, request: &Request, key: &str) -> Answer {
        let mut world = self.world();
        let upload = request.query("uploadId");
        if upload.is_none() && request.method != "GET" {
            world.kinds.insert(key.to_owned(), request.kind.clone());
        }
        match (request.method.as_str(), upload) {
            ("GET", None) => match world.objects.get(key) {
                Some(bytes) => (200, Vec::new(), bytes.clone()),
                None => failure(404, "NoSuchKey"),
            },
            ("PUT", None) => {
                world.objects.insert(key.to_owned(), request.body.clone());
                (200, vec![("etag", "\"one\"".to_owned())], Vec::new())
            }
            ("POST", None) if request.query("uploads").is_some() => {
                let id = format!("upload {}&", world.asked.len());
                world.uploads.insert(id.clone(), BTreeMap::new());
                let id = id.replace('&', "&amp;");
                let text = format!(
                    "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                (200, Vec::new(), text.into_bytes())
            }
            ("PUT", Some(upload)) => {
                let number = request.query("partNumber").and_then(|number| number.parse().ok()).unwrap_or_default();
                let Some(parts) = world.uploads.get_mut(&upload) else { return failure(404, "NoSuchUpload") };
                parts.insert(number, request.body.clone());
                (200, vec![("etag", format!("\"part-{number}\""))], Vec::new())
            }
            ("POST", Some(upload)) => {
                let Some(parts) = world.uploads.get(&upload) else { return failure(404, "NoSuchUpload") };
                let reported = String::from_utf8_lossy(&request.body);
                let right = |number: &u16| reported.contains(&format!("<PartNumber>{number}</PartNumber>"));
                if !parts.keys().all(right) || reported.matches("<PartNumber>").count() != parts.len() {
                    // The status stands before it is known how it ends.
                    return (200, Vec::new(), failure(400, "InvalidPart").2);
                }
                let whole = parts.values().flatten().copied().collect();
                world.uploads.remove(&upload);
                world.objects.insert(key.to_owned(), whole);
                let text = "<CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>";
                (200, Vec::new(), text.as_bytes().to_vec())
            }
            ("DELETE", Some(upload)) => {
                world.uploads.remove(&upload);
                (204, Vec::new(), Vec::new())
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    /// Whether a request is signed with the keys for this region.
    fn signed(&self, request: &Request) -> Result<(), &'static str> {
        let Some(keys) = self.keys else { return Ok(()) };
        let of = |name: &str| request.query(name).ok_or("AccessDenied");
        let (credential, date, signature) = (of("X-Amz-Credential")?, of("X-Amz-Date")?, of("X-Amz-Signature")?);
        let scope =
            credential.strip_prefix(keys.id).and_then(|rest| rest.strip_prefix('/')).ok_or("InvalidAccessKeyId")?;
        let day = date.get(..8).unwrap_or_default();
        if scope != format!("{day}/{}/s3/aws4_request", self.region) {
            return Err("AuthorizationHeaderMalformed");
        }
        let query = request.url.query().unwrap_or_default();
        let mut members: Vec<&str> =
            query.split('&').filter(|member| !member.starts_with("X-Amz-Signature=")).collect();
        members.sort_unstable();
        let canonical = format!(
            "{}\n{}\n{}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD",
            request.method,
            request.url.path(),
            members.join("&"),
            request.host
        );
        let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
        let key = scope.split('/').fold(format!("AWS4{}", keys.secret).into_bytes(), |key, part| mac(&key, part));
        if hex(&mac(&key, &to_sign)) == signature { Ok(()) } else { Err("SignatureDoesNotMatch") }
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decoded(text: &str) -> String {
    // In a query, `+` is a blank; in a path it is itself.
    let pair = format!("k={}", text.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// The next request of a connection; none at its end.
fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let (mut line, mut host, mut kind, mut bytes) = (String::new(), String::new(), String::new(), 0);
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "host" => value.trim().clone_into(&mut host),
            "content-type" => value.trim().clone_into(&mut kind),
            "content-length" => bytes = value.trim().parse::<usize>().unwrap_or_default().min(BODY_MAX),
            _ => {}
        }
    }
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let url = Url::parse(&format!("http://{host}{target}")).map_err(std::io::Error::other)?;
    Ok(Some(Request { method: method.to_owned(), url, host, kind, body }))
}
