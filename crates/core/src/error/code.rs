//! The codes of errors: one word for programs each, with its class, its HTTP status, its gRPC status and its title.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Class;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $class:ident, $http:literal, $grpc:literal, $title:literal;)+) => {
        /// What went wrong, in one word for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)+
        }

        impl Code {
            /// All codes, by their HTTP status.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as it is written.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// What kind of trouble it is.
            #[must_use]
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)+ }
            }

            /// The status of an HTTP response.
            #[must_use]
            pub const fn http(self) -> u16 {
                match self { $(Self::$name => $http,)+ }
            }

            /// The number of the status of a gRPC call.
            #[must_use]
            pub const fn grpc(self) -> i32 {
                match self { $(Self::$name => $grpc,)+ }
            }

            /// The title for people, the same for every error of this code.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }
        }
    };
}

codes! {
    /// The specification or the request is wrong as written.
    InvalidSpec = "invalid-spec", Invalid, 400, 3, "The request is not valid";
    /// Nobody, or nobody known, calls.
    Unauthenticated = "unauthenticated", Denied, 401, 16, "Authentication is required";
    /// The caller may not.
    Forbidden = "forbidden", Denied, 403, 7, "Forbidden";
    /// It is not there, or the caller may not see it.
    NotFound = "not-found", NotFound, 404, 5, "Not found";
    /// The route is there, and has no such method.
    MethodNotAllowed = "method-not-allowed", NotFound, 405, 12, "Method not allowed";
    /// The state of the object forbids it.
    Conflict = "conflict", Conflict, 409, 6, "Conflict with the current state";
    /// A condition that the caller named, or that the call needs, does not hold.
    Precondition = "precondition", Conflict, 412, 9, "Precondition failed";
    /// More bytes or items than a request may have.
    TooLarge = "too-large", Invalid, 413, 11, "The request is too large";
    /// A body of the wrong type.
    MediaType = "media-type", Invalid, 415, 3, "The body has the wrong type";
    /// It can never be placed, however long it waits.
    NeverFits = "never-fits", Invalid, 422, 9, "The request can never be satisfied";
    /// The key was used with another body.
    IdempotencyMismatch = "idempotency-mismatch", Conflict, 422, 3, "The idempotency key was used for another request";
    /// What was received is not what was announced.
    Checksum = "checksum", Invalid, 422, 15, "The checksum does not match";
    /// A limit of the tenant is reached.
    QuotaExceeded = "quota-exceeded", Capacity, 429, 8, "Quota exceeded";
    /// Too many requests, or a full server.
    RateLimited = "rate-limited", Capacity, 429, 8, "Too many requests";
    /// A fault of the server.
    Internal = "internal", Fatal, 500, 13, "The server failed";
    /// Another server leads.
    NotLeader = "not-leader", Transient, 503, 14, "Another server leads";
    /// What was asked cannot be stored now.
    StoreUnavailable = "store-unavailable", Transient, 503, 14, "The store is not available";
    /// It took too long.
    Deadline = "deadline", Transient, 504, 4, "Deadline exceeded";
}

impl Code {
    /// The code that is written so.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// Whether the same request may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self.class(), Class::Transient | Class::Capacity)
    }
}

impl From<Class> for Code {
    /// The code of an error of which only the class is known.
    fn from(class: Class) -> Self {
        match class {
            Class::Transient | Class::Capacity => Self::StoreUnavailable,
            Class::Conflict | Class::Exists => Self::Conflict,
            Class::Invalid => Self::InvalidSpec,
            Class::NotFound => Self::NotFound,
            Class::Denied => Self::Forbidden,
            Class::Fatal => Self::Internal,
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    /// A code that this version does not know is [`Code::Internal`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::from_name(&text).unwrap_or(Self::Internal))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_codes() {
        let row = |code: &Code| {
            format!("{code} {} {} {} {} {}", code.class(), code.http(), code.grpc(), code.is_retryable(), code.title())
        };
        let table: Vec<String> = Code::ALL.iter().map(row).collect();
        insta::assert_snapshot!(table.join("\n"));
        assert!(Code::ALL.iter().all(|code| Code::from_name(code.as_str()) == Some(*code)));
    }
}
