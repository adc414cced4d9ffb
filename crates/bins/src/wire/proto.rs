//! The generated code of the protocol, and the `Debug` of messages that hold credentials. Its names and numbers
//! are those of the files in `proto`.

#![allow(clippy::all, clippy::too_many_lines, dead_code, missing_docs, unreachable_pub, reason = "generated")]

use std::fmt;

/// Messages and services of the fleet, as generated: package `orlop.v1`.
pub mod v1 {
    tonic::include_proto!("orlop.v1");
}

/// Package `grpc.health.v1`.
pub(crate) mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// The standard carrier of a status's details.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<RpcAny>,
}

/// One of those details.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RpcAny {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// Shows the name of a message and of what it is about, and nothing of its content.
macro_rules! silent {
    ($($message:ident { $($shown:ident),* })*) => {
        $(impl fmt::Debug for v1::$message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($message))$(.field(stringify!($shown), &self.$shown))*.finish_non_exhaustive()
            }
        })*
    };
}

silent! {
    SecretValue { name, r#as, target }
    RegisterWorkerRequest { worker_id, protocol, agent_version, state_id }
    RegisterWorkerResponse { worker_id, incarnation, epoch, protocol }
    Hello { highest_epoch, last_server_seq, live, outbox }
    HeartbeatRequest { epoch, status }
}

#[cfg(test)]
mod tests {
    use super::v1;

    /// Every number of the protocol. A line may be added; one that changes or goes breaks workers and clients that are
    /// in use, so a field is retired by keeping its line with the word `reserved` in the file.
    #[test]
    fn names_and_numbers_are_those_of_the_tables() {
        insta::assert_snapshot!(include_str!(concat!(env!("OUT_DIR"), "/protocol.txt")));
    }

    #[test]
    fn secrets_never_show_in_debug_output() {
        let secret = v1::SecretValue {
            name: "db".into(),
            value: b"hunter2".into(),
            r#as: 1,
            target: "db".into(),
            problem: String::new(),
        };
        let job = v1::AssignJob { secrets: vec![secret], ..v1::AssignJob::default() };
        let request = v1::RegisterWorkerRequest { join_token: "hunter2".into(), ..Default::default() };
        let text = format!("{job:?} {request:?}");
        assert!(text.contains("db") && !text.contains("hunter2"), "{text}");
        assert!(!text.contains("104, 117, 110"), "{text}");
    }
}
