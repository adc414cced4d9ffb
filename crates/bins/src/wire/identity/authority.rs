//! The fleet's own authority: one key that signs the certificates of the server and, for a day, of workers.

use std::fmt;
use std::time::Duration;

use orlop_core::id::WorkerId;
use orlop_core::time::Time;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, ServerName};

use super::{IdentityError, fingerprint};

/// The name in the certificate of every server of a fleet. Workers check this name, since the authority is the fleet's
/// own and addresses change.
pub const SERVER_NAME: &str = "scheduler.orlop.internal";
/// How long the certificate of a worker is good, in days.
pub const WORKER_DAYS: u32 = 1;

/// When a worker's certificate that was made at `issued` is to be renewed: after two thirds of its time.
#[must_use]
pub fn renewal(issued: Time) -> Time {
    issued.plus(DAY * WORKER_DAYS * 2 / 3)
}

/// When a worker's certificate that was made at `issued` is good no more.
#[must_use]
pub fn expiry(issued: Time) -> Time {
    issued.plus(DAY * WORKER_DAYS)
}

const DAY: Duration = Duration::from_secs(86_400);
/// Clocks may differ by so much.
const SKEW: Duration = Duration::from_secs(300);
const AUTHORITY_DAYS: u32 = 3650;
const SERVER_DAYS: u32 = 365;

/// A key that signs, and its certificate. `Debug` shows the fingerprint only.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("fingerprint", &super::hex(&self.fingerprint())).finish_non_exhaustive()
    }
}

/// What a server shows: its certificate with the authority's, and its key, in PEM. `Debug` never shows the key.
#[derive(Clone)]
pub struct ServerIdentity {
    /// Certificates, its own first.
    pub chain: String,
    /// Its key.
    pub key: String,
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerIdentity").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// A key an agent made, and its request for a certificate. `Debug` never shows the key.
#[derive(Clone)]
pub struct Csr {
    /// The request, PKCS #10 in DER.
    pub request: Vec<u8>,
    /// The key, PKCS #8 in PEM.
    pub key: String,
}

impl fmt::Debug for Csr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Csr").field("request", &self.request.len()).finish_non_exhaustive()
    }
}

impl Csr {
    /// A new key and a request for it.
    ///
    /// # Errors
    /// The machine gives no randomness.
    pub fn new() -> Result<Self, IdentityError> {
        let wrong = IdentityError::new("making a key");
        let key = KeyPair::generate().map_err(|error| wrong(&error))?;
        // What the certificate says is decided by who signs it, so the request says nothing.
        let params = CertificateParams::new(Vec::new()).map_err(|error| wrong(&error))?;
        let request = params.serialize_request(&key).map_err(|error| wrong(&error))?;
        Ok(Self { request: request.der().to_vec(), key: key.serialize_pem() })
    }
}

/// Certificates that are good from a little before `now`, for so many days.
fn lasting(params: &mut CertificateParams, now: Time, days: u32) {
    let now = rcgen::date_time_ymd(1970, 1, 1) + now.since(Time::EPOCH);
    params.not_before = now - SKEW;
    params.not_after = now + DAY * days;
}

impl Authority {
    /// A new authority, good for ten years from `now`; also its key in PEM, to be kept.
    ///
    /// # Errors
    /// The machine gives no randomness.
    pub fn create(now: Time) -> Result<(Self, String), IdentityError> {
        let wrong = IdentityError::new("making the fleet's authority");
        let key = KeyPair::generate().map_err(|error| wrong(&error))?;
        let pem = key.serialize_pem();
        let mut params = CertificateParams::new(Vec::new()).map_err(|error| wrong(&error))?;
        params.distinguished_name.push(DnType::CommonName, "orlop fleet authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        lasting(&mut params, now, AUTHORITY_DAYS);
        let certificate = params.self_signed(&key).map_err(|error| wrong(&error))?;
        let (der, text) = (certificate.der().clone(), certificate.pem());
        Ok((Self { certificate: der, pem: text, issuer: Issuer::new(params, key) }, pem))
    }

    /// The authority that was kept: its certificate and its key, both in PEM.
    ///
    /// # Errors
    /// One of the two cannot be read.
    pub fn load(pem: &str, key: &str) -> Result<Self, IdentityError> {
        let wrong = IdentityError::new("reading the fleet's authority");
        let key = KeyPair::from_pem(key).map_err(|error| wrong(&error))?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| wrong(&error))?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(|error| wrong(&error))?;
        Ok(Self { issuer, certificate, pem: pem.to_owned() })
    }

    /// Its certificate in DER.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Its certificate in PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// SHA-256 of its certificate, as join tokens carry it.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        fingerprint(&self.certificate)
    }

    /// A key and certificate for a server, good for a year; renewed at every start. `names` are further host names and
    /// addresses by which clients know it.
    ///
    /// # Errors
    /// A name cannot stand in a certificate.
    pub fn server(&self, names: &[String], now: Time) -> Result<ServerIdentity, IdentityError> {
        let wrong = IdentityError::new("making the server's certificate");
        let all: Vec<String> = std::iter::once(SERVER_NAME.to_owned()).chain(names.iter().cloned()).collect();
        let mut params = CertificateParams::new(all).map_err(|error| wrong(&error))?;
        params.distinguished_name.push(DnType::CommonName, SERVER_NAME);
        // A worker's certificate must never pass for a server's, nor the other way round.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        lasting(&mut params, now, SERVER_DAYS);
        let key = KeyPair::generate().map_err(|error| wrong(&error))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|error| wrong(&error))?;
        Ok(ServerIdentity { chain: format!("{}{}", certificate.pem(), self.pem()), key: key.serialize_pem() })
    }

    /// The certificate of a worker in DER, for the key of its request, good for a day. Only the key is taken from the
    /// request.
    ///
    /// # Errors
    /// The request cannot be read or is not signed by its key, or the id cannot be the name of a certificate.
    pub fn sign(&self, request: &[u8], worker: &WorkerId, now: Time) -> Result<Vec<u8>, IdentityError> {
        let wrong = IdentityError::new("signing a worker's certificate");
        if ServerName::try_from(worker.as_str()).is_err() {
            let why = format!("`{worker}` cannot be the name of a certificate; use labels of letters, digits and `-`");
            return Err(wrong(&why));
        }
        let request = CertificateSigningRequestDer::from(request);
        let request = CertificateSigningRequestParams::from_der(&request).map_err(|error| wrong(&error))?;
        let mut params = CertificateParams::new(vec![worker.to_string()]).map_err(|error| wrong(&error))?;
        params.distinguished_name.push(DnType::CommonName, worker.as_str());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        lasting(&mut params, now, WORKER_DAYS);
        let signed = params.signed_by(&request.public_key, &self.issuer).map_err(|error| wrong(&error))?;
        Ok(signed.der().to_vec())
    }
}
