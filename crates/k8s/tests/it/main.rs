//! Integration tests of the Kubernetes adapters. One binary, one module per concern.

mod object_schema;
